// Runs what the editor has, shows the elapsed time, and cancels. A run ends the one before it.

import { failure, fields, form, one, post, say, swap } from "../tidegate.js";
import { forgetNames } from "./completion.js";
import { remember } from "./history.js";
import { enhance } from "./results.js";

let running = null;

export const isRunning = () => running !== null;

export async function run(editor, which, { analyze = false } = {}) {
  running?.abort();
  const mine = (running = new AbortController());
  const sql = editor.asked(which);
  const given = fields();
  given.set("sql", sql);
  if (analyze) given.set("analyze", "1");
  const stop = busy();
  try {
    const answer = await post(form.getAttribute("action"), given, mine.signal);
    const html = await answer.text();
    if (running === mine) answer.ok ? show(editor, sql, html) : say(failure(answer, html));
  } catch (error) {
    if (error.name !== "AbortError") say("The server does not respond.");
  } finally {
    stop(running === mine);
    if (running === mine) running = null;
  }
}

function show(editor, sql, html) {
  swap(html);
  const result = one("#result");
  enhance(result);
  editor.markFailed(result.querySelector("[data-from]"));
  remember(sql, result.dataset);
  forgetNames();
  const heads = [...result.querySelectorAll(".answer > .head")].map((head) => [head.querySelector("h2"), head.querySelector(".cost")]);
  one("[data-status]").textContent = heads.map((pieces) => pieces.map((piece) => piece?.textContent ?? "").join(" ")).join(". ");
  const seen = result.getBoundingClientRect();
  if (seen.top < 0 || seen.top > innerHeight - 120) result.scrollIntoView({ block: "start" });
}

// Shows that a query runs, until it is called back; a run that another one has replaced leaves the page to it.
function busy() {
  const began = performance.now();
  const elapsed = one("[data-elapsed]");
  const button = one("[data-cancel]");
  const clock = setInterval(() => (elapsed.textContent = `${((performance.now() - began) / 1000).toFixed(1)} s`), 100);
  button.disabled = false;
  one("#result")?.classList.add("busy");
  return (last) => {
    clearInterval(clock);
    if (!last) return;
    button.disabled = true;
    elapsed.textContent = "";
    one("#result")?.classList.remove("busy");
  };
}

export function cancel() {
  if (running) post(one("[data-cancel]").dataset.cancel, fields()).catch(() => {});
}
