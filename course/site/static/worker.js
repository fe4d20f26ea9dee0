// Runs the helper's Python beside the page, so that a long text never freezes it.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const here = (name) => new URL(name, import.meta.url).href;

async function bytes(name) {
  const answer = await fetch(here(name));
  if (!answer.ok) throw new Error(`${name} is not on this site (${answer.status}).`);
  return answer.arrayBuffer();
}

const ready = (async () => {
  const python = await loadPyodide({ indexURL: here("pyodide/") });
  python.unpackArchive(await bytes("colab_helpers.zip"), "zip");
  python.FS.writeFile("in_browser.py", new Uint8Array(await bytes("in_browser.py")));
  const answers = python.pyimport("in_browser");
  answers.error("", ""); // reads the table of problems, which the first question would wait for
  self.postMessage({ ready: true });
  return answers;
})();
ready.catch(() => {}); // told with the first question

self.onmessage = async ({ data: { id, question, given } }) => {
  try {
    const answer = (await ready)[question](...given);
    self.postMessage({ id, answer: JSON.parse(answer) });
  } catch (error) {
    // What can be expected is answered in words; after anything else this Python is not to be trusted.
    self.postMessage({ id, fatal: true, problem: `Python could not answer: ${String(error.message ?? error).slice(0, 500)}` });
  }
};
