// A UMD bundle on the host's React: Airflow shares it as globals, a second copy would break hooks.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  esbuild: { jsx: "automatic" },
  build: {
    outDir: "../plugins/databus_ui",
    emptyOutDir: true,
    lib: { entry: "src/main.tsx", formats: ["umd"], name: "AirflowPlugin", fileName: () => "main.js" },
    rollupOptions: {
      external: ["react", "react/jsx-runtime"],
      output: { globals: { react: "React", "react/jsx-runtime": "ReactJSXRuntime" } },
    },
  },
});
