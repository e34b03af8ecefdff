// Python in a worker of its own, so that the page stays responsive. It is made at the first
// click on Run, and everything that it loads lies in its own folder.
import { loadPyodide } from "./pyodide.mjs";
import "../katex/katex.min.js"; // defines self.katex

const STEPS = 5;
const progress = (step) => postMessage({ type: "loading", step, of: STEPS });

// Asks the server whether its copy is newer: a book that was built again is not mixed with
// what the browser kept of the old one.
async function download(name) {
  const response = await fetch(new URL(name, import.meta.url), { cache: "no-cache" });
  if (!response.ok) throw new Error(`${name} is missing on the server`);
  return response;
}

async function start() {
  progress(1);
  const archives = ["libraries.zip", "checker.zip"].map(async (name) => {
    const content = await (await download(name)).arrayBuffer();
    return [`/${name}`, new Uint8Array(content)];
  });
  const runner = download("runner.py").then((response) => response.text());
  const python = await loadPyodide({ indexURL: new URL(".", import.meta.url).href });
  progress(2);
  python.runPython("import gc; gc.disable()"); // an import leaves no garbage worth a search
  for (const [path, content] of await Promise.all(archives)) {
    python.FS.writeFile(path, content);
    python.runPython(`import sys; sys.path.append("${path}")`);
  }
  progress(3);
  python.runPython("import sympy");
  progress(4);
  python.FS.writeFile("/home/pyodide/runner.py", await runner);
  const run = python.runPython("from runner import run; run");
  python.runPython("gc.freeze(); gc.enable()");
  progress(5);
  return run;
}

const ready = start().catch((error) => {
  postMessage({ type: "failed", message: String(error.message ?? error) });
});

onmessage = async ({ data }) => {
  const run = await ready;
  if (!run) return;
  postMessage({ type: "running" });
  const result = JSON.parse(run(data.prelude, data.source));
  const options = { displayMode: true, throwOnError: false, strict: false, macros: data.macros };
  result.formulas = result.latex?.map((latex) => katex.renderToString(latex, options));
  postMessage({ type: "done", result });
};
