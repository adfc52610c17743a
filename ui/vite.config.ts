// A UMD bundle on the host's React: Airflow shares it as globals, a second copy would break hooks.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

import { defineConfig, type Plugin } from "vite";

/** Writes what the bundle was built from (tests/unit/web/test_bundle.py): a changed source that was not built is noticed. */
function builtFrom(): Plugin {
  return {
    name: "built-from",
    generateBundle(_, bundle) {
      const source = createHash("sha256");
      const files = ["package-lock.json", "vite.config.ts", ...readdirSync("src").map((name) => `src/${name}`)];
      for (const file of files.sort()) source.update(`${file}\n`).update(readFileSync(file));
      const main = bundle["main.js"];
      const code = main?.type === "chunk" ? main.code : "";
      const built = { source: source.digest("hex"), bundle: createHash("sha256").update(code).digest("hex") };
      this.emitFile({ type: "asset", fileName: "built.json", source: `${JSON.stringify(built)}\n` });
    },
  };
}

export default defineConfig({
  base: "./",
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  esbuild: { jsx: "automatic" },
  plugins: [builtFrom()],
  build: {
    outDir: "../include/databus/web/bundle",
    emptyOutDir: true,
    lib: { entry: "src/main.tsx", formats: ["umd"], name: "AirflowPlugin", fileName: () => "main.js" },
    rollupOptions: {
      external: ["react", "react/jsx-runtime"],
      output: { globals: { react: "React", "react/jsx-runtime": "ReactJSXRuntime" } },
    },
  },
});
