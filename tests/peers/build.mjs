// Bundles the drivers (child, parent, hop, units, judge), each with the sources of the installed peer, into dist/.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const sources = at("node_modules/@gotgenes/pi-permission-system/src/");

// The peer's own files import each other as `#src/…`; the drivers do the same. Neither names the extension.
const peerSources = {
  name: "peer-sources",
  setup({ onResolve }) {
    onResolve({ filter: /^#src\// }, ({ path }) => ({ path: `${sources}${path.slice("#src/".length)}.ts` }));
  },
};

await build({
  entryPoints: ["child", "parent", "hop", "units", "judge"].map((name) => at(`drivers/${name}.ts`)),
  outdir: at("dist"),
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  plugins: [peerSources],
  alias: {
    "@earendil-works/pi-coding-agent": at("drivers/host/coding-agent.ts"),
    "@earendil-works/pi-tui": at("drivers/host/tui.ts"),
  },
  // Loaded on demand for parsing bash; they bring their own WebAssembly, which units.ts finds in node_modules.
  external: ["web-tree-sitter", "tree-sitter-bash"],
  logLevel: "warning",
});
