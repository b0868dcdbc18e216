// Results: columns that sort, values that open, rows a hundred at a time, copies as TSV, charts.

import { chartOf } from "./chart.js";
import { copyText, formatJson, valueOf } from "./text.js";

const PAGE = 100;

export function enhance(result) {
  for (const answer of result?.querySelectorAll(".answer") ?? []) {
    const table = answer.querySelector(".rows table");
    if (table && !answer.dataset.enhanced) enhanceTable(answer, table);
    answer.dataset.enhanced = "1";
  }
}

const button = (text, title, action) => {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: text, title });
  made.addEventListener("click", () => action(made));
  return made;
};

function enhanceTable(answer, table) {
  const body = table.tBodies[0];
  const state = { rows: [...body.rows], shown: PAGE, column: null, descending: false };
  const draw = () => {
    const order = sorted(state, table);
    order.forEach((row, i) => (row.hidden = i >= state.shown));
    body.replaceChildren(...order);
    footer(answer, state, table, draw);
  };
  for (const [i, head] of [...table.tHead.rows[0].cells].entries()) if (head.dataset.ranks) sortable(head, i, state, draw);
  body.addEventListener("click", (event) => open(event.target));
  body.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" && !event.ctrlKey && !event.metaKey) || event.key === " ") if (open(event.target)) event.preventDefault();
  });
  for (const span of body.querySelectorAll("span.long, span.document")) {
    span.tabIndex = 0;
    span.setAttribute("role", "button");
    span.setAttribute("aria-expanded", "false");
    span.title = "Click to see it whole";
  }
  tools(answer, table);
  draw();
}

// ---------------------------------------------------------------- sorting

function sortable(head, i, state, draw) {
  const name = document.createElement("button");
  Object.assign(name, { type: "button", className: "sort", textContent: head.textContent });
  head.replaceChildren(name);
  name.addEventListener("click", () => {
    if (state.column !== i) [state.column, state.descending] = [i, false];
    else if (!state.descending) state.descending = true;
    else state.column = null;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    if (state.column !== null) head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    draw();
  });
}

// The rows by the ranks of a column, which the server gives in the order of its type; NULL comes last either way.
function sorted(state, table) {
  if (state.column === null) return state.rows;
  const ranks = table.tHead.rows[0].cells[state.column].dataset.ranks.split(" ").map((rank) => (rank ? Number(rank) : null));
  const turn = state.descending ? -1 : 1;
  const compare = (a, b) => (ranks[a] === null) - (ranks[b] === null) || turn * (ranks[a] - ranks[b]) || a - b;
  return state.rows.map((_, i) => i).sort(compare).map((i) => state.rows[i]);
}

// ---------------------------------------------------------------- below the rows

function footer(answer, state, table, draw) {
  const place = answer.querySelector(".foot") ?? document.createElement("div");
  place.className = "foot";
  place.replaceChildren();
  const left = state.rows.length - state.shown;
  const count = (number) => number.toLocaleString("en");
  if (left > 0) {
    const more = button(`Show ${count(Math.min(PAGE, left))} more`, "", () => ((state.shown += PAGE), draw()));
    place.append(more);
    if (left > PAGE) place.append(button(`Show all ${count(state.rows.length)}`, "", () => ((state.shown = Infinity), draw())));
    place.append(note(`${count(state.shown)} of ${count(state.rows.length)} rows`));
  }
  if (state.column !== null && answer.dataset.cut !== undefined)
    place.append(note(`Sorted: the ${count(state.rows.length)} rows that were sent, not the whole result. ORDER BY sorts all.`, "sorted-note"));
  if (!place.isConnected) answer.querySelector(".rows").after(place);
}

function note(text, name = "quiet") {
  const made = document.createElement("span");
  made.className = `quiet ${name}`;
  made.textContent = text;
  return made;
}

// ---------------------------------------------------------------- values that open

function open(target) {
  const span = target.closest?.("span.long, span.document");
  if (!span || String(getSelection())) return false;
  const whole = span.dataset.value ?? span.dataset.shown ?? span.textContent;
  const opened = span.classList.toggle("open");
  span.setAttribute("aria-expanded", String(opened));
  if (opened) {
    span.dataset.closed = span.textContent;
    span.dataset.shown = whole;
    const kind = span.closest("table").tHead.rows[0].cells[span.closest("td").cellIndex].dataset.kind;
    const cut = span.dataset.length && !span.dataset.value;
    const text = kind === "json" && !cut ? formatJson(whole) : whole;
    span.textContent = cut ? `${text}\n(${Number(span.dataset.length).toLocaleString("en")} characters: a download has all of them)` : text;
  } else span.textContent = span.dataset.closed;
  return true;
}

// ---------------------------------------------------------------- copies and charts

function tools(answer, table) {
  const place = answer.querySelector(".tools") ?? answer.querySelector(".head").appendChild(Object.assign(document.createElement("div"), { className: "tools" }));
  const copy = button("Copy", "Copy the rows as tab-separated values", async (pressed) => {
    pressed.textContent = (await copyText(tsv(table))) ? "Copied" : "Not copied";
    setTimeout(() => (pressed.textContent = "Copy"), 1500);
  });
  const chart = button("Chart", "Draw the rows as a chart", (pressed) => {
    const on = answer.classList.toggle("charted");
    pressed.setAttribute("aria-pressed", String(on));
    answer.querySelector(".plot")?.remove();
    if (on) answer.querySelector(".rows").before(chartOf(answer, table));
  });
  chart.setAttribute("aria-pressed", "false");
  chart.disabled = table.tBodies[0].rows.length === 0 || !table.querySelector("th[data-kind=number]");
  if (chart.disabled) chart.title = "A chart needs rows and a column of numbers";
  place.prepend(chart, copy);
}

// The rows that were sent, with names, as spreadsheets take them: NULL is empty, a tab or line break is quoted.
function tsv(table) {
  const cell = (value) => (value === null ? "" : /[\t\n\r"]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const names = [...table.tHead.rows[0].cells].map((head) => cell(head.textContent));
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((one) => cell(valueOf(one))).join("\t"));
  return [names.join("\t"), ...rows].join("\n") + "\n";
}
