import { defineConfig } from "vite";

// Names carry a hash of what is inside, so that browsers may keep a file for ever.
export default defineConfig({
  base: "./",
  // The licence of a font goes wherever the font goes.
  publicDir: "public",
  build: {
    outDir: "../src/tiltyard/web/bundle",
    emptyOutDir: true,
    manifest: "manifest.json",
    assetsDir: "",
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1024,
    sourcemap: false,
    target: "es2022",
    rolldownOptions: {
      input: "src/main.ts",
      output: {
        entryFileNames: "[name]-[hash].js",
        chunkFileNames: "[name]-[hash].js",
        assetFileNames: "[name]-[hash][extname]",
      },
    },
  },
});
