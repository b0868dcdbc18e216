// The query box: an editor in the place of its text field, runs, results, history.
//
// | module | |
// |---|---|
// | editor.js | the editor: highlighting, keys, the statement at the cursor, errors at their place |
// | completion.js | names, functions and words that fit at the cursor |
// | run.js | runs statements, and cancels them |
// | results.js | results: tables that sort, values that open, copies; chart.js draws them |
// | early.js | what is asked before these modules have come |
// | history.js | what was run, and links to it |

import { ask, form, one, soon } from "../tidegate.js";
import { createEditor } from "./editor.js";
import { keepHistory, linkedQuery } from "./history.js";
import { enhance } from "./results.js";
import { cancel, isRunning, run } from "./run.js";

function start(field) {
  const focused = field.autofocus || document.activeElement === field;
  const editor = createEditor(field, {
    changed() {
      for (const other of document.querySelectorAll("[data-single]")) other.checked = false;
      one("#result")?.setAttribute("data-stale", "");
      soon();
    },
    moved: soon,
    run: (all) => run(editor, all ? "all" : "cursor"),
    escape() {
      if (isRunning()) cancel();
      else editor.blur();
    },
  });
  form.statement = () => editor.statement();
  form.addEventListener("asked", () => editor.mark(one("#verdict [data-from]")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(editor, "all", { analyze: event.submitter?.name === "analyze" });
  });
  one("[data-cancel]").addEventListener("click", cancel);
  for (const chip of document.querySelectorAll("[data-fill]"))
    chip.addEventListener("click", () => {
      editor.replace(chip.dataset.fill);
      editor.focus();
    });
  const linked = form.classList.contains("console") ? linkedQuery() : null;
  if (linked !== null) editor.replace(linked);
  if (form.classList.contains("console")) keepHistory(editor);
  if (focused) editor.focus();
  if (editor.text().trim()) ask();
  keys(editor);
  form.dataset.ready = "";
  if (form.wanted) run(editor, form.wanted.which, { analyze: form.wanted.analyze }); // asked for while the editor was on its way
}

// Keys outside of the editor, and fields of the map that belong to the form.
function keys(editor) {
  const ours = (event) => event.target.form === form;
  document.addEventListener("input", (event) => {
    if (!ours(event)) return;
    const field = event.target;
    if (field.dataset.single !== undefined && field.checked)
      for (const other of document.querySelectorAll("[data-single]")) other.checked = other === field;
    ask();
  });
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || editor.holds(event.target)) return;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      editor.focus();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run(editor, event.shiftKey ? "all" : "cursor");
    } else if (event.key === "Escape" && isRunning()) cancel();
  });
}

const field = one("[data-query]");
if (form && field) start(field);
enhance(one("#result"));
