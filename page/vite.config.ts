// The page is built once and shipped with the Python package, so the built files have fixed names and no time stamps.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

const HERE = import.meta.dirname;
const SHIPPED = ["preact", "d3-force", "d3-dispatch", "d3-quadtree", "d3-timer", "@fontsource-variable/inter", "@fontsource-variable/source-serif-4"];

/** All files below a folder, sorted by their path. */
function files(folder: string): string[] {
  return readdirSync(folder)
    .map((name) => join(folder, name))
    .flatMap((path) => (statSync(path).isDirectory() ? files(path) : [path]))
    .sort();
}

/** SHA-256 of the sources. A test compares it with the sources of the repository (tests/page/test_built.py computes the same). */
function digest(): string {
  const hash = createHash("sha256");
  const sources = [...files(join(HERE, "src")), ...["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"].map((n) => join(HERE, n))];
  const named = sources.map((path) => [relative(HERE, path).replaceAll("\\", "/"), path] as const).sort((a, b) => (a[0] < b[0] ? -1 : 1));
  for (const [name, path] of named) hash.update(`${name}\0`).update(readFileSync(path)).update("\0");
  return hash.digest("hex");
}

/** Writes the digest of the sources and the licences of what is shipped next to the built files. */
function notes(): Plugin {
  return {
    name: "notes",
    generateBundle() {
      const licence = (name: string) => {
        const home = join(HERE, "node_modules", name);
        const file = readdirSync(home).find((one) => /^licen[cs]e/i.test(one));
        return `${name}\n\n${file ? readFileSync(join(home, file), "utf8").trim() : ""}\n`;
      };
      this.emitFile({ type: "asset", fileName: "sources.sha256", source: `${digest()}\n` });
      this.emitFile({ type: "asset", fileName: "licences.txt", source: SHIPPED.map(licence).join(`\n${"-".repeat(80)}\n\n`) });
    },
  };
}

export default defineConfig({
  base: "/page/",
  plugins: [notes()],
  // During development, `npm run dev` passes questions on to a running `dura serve`.
  server: { proxy: { "^/(about|predict|score|neighbours|explain|entities|relations|facts|suggestions|times|map|reviews)": "http://127.0.0.1:8000" } },
  build: {
    outDir: "../src/dura/web/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: { entryFileNames: "[name].js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
});
