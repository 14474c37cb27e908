// The peer's own judgement of rules. Each line of stdin names a directory with its configuration, that of a project and its agents,
// whether the switch is on, and asks; each line of stdout is the list of what the peer's manager says to them.
import { createInterface } from "node:readline";
import { PermissionManager } from "#src/permission-manager";
import { printLine } from "./session";

interface Ask {
  surface: string;
  values: string[];
  agentName?: string;
}

interface Case {
  agentDir: string;
  project?: string;
  yolo: boolean;
  asks: Ask[];
}

for await (const line of createInterface({ input: process.stdin })) {
  const { agentDir, project, yolo, asks }: Case = JSON.parse(line);
  const manager = new PermissionManager({ agentDir, isYoloEnabled: () => yolo });
  manager.configureForCwd(project);
  const said = asks.map(({ surface, values, agentName }) => {
    // Commands come as the input of their tool; of everything else the values are known.
    const intent =
      surface === "bash"
        ? { kind: "tool" as const, surface, input: { command: values[0] }, agentName }
        : { kind: "path-values" as const, surface, values, agentName };
    const { state, matchedPattern, reason, origin } = manager.check(intent);
    return { state, matchedPattern, reason, origin };
  });
  printLine({ said, issues: manager.getConfigIssues() });
}
