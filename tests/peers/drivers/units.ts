// The peer's own reading of command lines. Each line of stdin is one command line as a JSON string; each line of stdout is the
// list of its units, with the sentinel of those that the peer never lets a rule allow.
import { createInterface } from "node:readline";
import { collectCommands, type WrapperKind } from "#src/access-intent/bash/command-enumeration";
import { getParser } from "#src/access-intent/bash/parser";
import { printLine } from "./session";

const sentinels: Record<WrapperKind, string> = {
  "opaque-payload": "<opaque-bash-wrapper>",
  indirection: "<indirection-bash-wrapper>",
};

const parser = await getParser();
for await (const line of createInterface({ input: process.stdin })) {
  const tree = parser.parse(JSON.parse(line));
  if (!tree) {
    printLine([]);
    continue;
  }
  const units = collectCommands(tree.rootNode).map(({ text, context, wrapperKind }) => ({
    text,
    context,
    floor: wrapperKind && sentinels[wrapperKind],
  }));
  tree.delete();
  printLine(units);
}
