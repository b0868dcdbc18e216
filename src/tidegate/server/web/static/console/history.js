// What was run, kept in this browser alone, and links that hold a query in the fragment of the address.
//
// A link fills the editor and runs nothing. Statements that may hold secrets are neither kept nor linked.

import { form, one } from "../tidegate.js";
import { copyText } from "./text.js";

const KEY = "tidegate.history";
const MOST = 200;
const LONGEST = 20_000;
const LONGEST_LINK = 8_000;
const SECRET = /\bcreate\s+(connection|source)\b|\b(password|secret|token)\b/i;

let list = null;
let editor = null;

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((entry) => typeof entry?.sql === "string") : [];
  } catch {
    return [];
  }
}

function write(entries) {
  try {
    localStorage.setItem(KEY, JSON.stringify(entries));
  } catch {
    // the storage is full or switched off: the history ends here
  }
}

// Keeps a run: its text, time, duration and rows.
export function remember(sql, { state, rows, ms }) {
  const text = sql.replace(/^\s*\n/, "").trim();
  if (!text || text.length > LONGEST || SECRET.test(text)) return;
  const entry = { sql: text, at: Date.now(), ms: Number(ms), rows: Number(rows), failed: state === "failed" };
  write([entry, ...read().filter((other) => other.sql !== text)].slice(0, MOST));
  if (editor) link();
  if (list && !list.hidden) draw();
}

// ---------------------------------------------------------------- links

export function linkedQuery() {
  const found = new URLSearchParams(location.hash.slice(1)).get("q") ?? new URLSearchParams(location.search).get("q");
  return found?.trim() ? found : null;
}

// Puts the text into the address; why not, if it cannot be there.
function link() {
  const text = editor.text();
  if (!text.trim()) return "Nothing to link";
  if (text.length > LONGEST_LINK) return "Too long for a link";
  if (SECRET.test(text)) return "May hold a secret";
  history.replaceState(null, "", `${location.pathname}#q=${encodeURIComponent(text)}`);
  return null;
}

// ---------------------------------------------------------------- the list

const element = (name, props, ...children) => {
  const made = Object.assign(document.createElement(name), props);
  made.append(...children);
  return made;
};

export function keepHistory(given) {
  editor = given;
  const place = one(".kept");
  place.hidden = false;
  one("[data-link]").addEventListener("click", async ({ target }) => {
    target.textContent = link() ?? ((await copyText(location.href)) ? "Copied" : "In the address");
    setTimeout(() => (target.textContent = "Copy link"), 1500);
  });
  list = element("section", { id: "history", className: "card history", hidden: true, ariaLabel: "History" });
  form.after(list);
  const toggle = one("[data-history]");
  const show = (on) => {
    list.hidden = !on;
    toggle.setAttribute("aria-expanded", String(on));
    if (on) draw(), list.querySelector("input").focus();
    else editor.focus();
  };
  toggle.addEventListener("click", () => show(list.hidden));
  list.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(false);
  });
  list.addEventListener("click", ({ target }) => {
    const entry = target.closest("[data-entry]");
    if (!entry) return;
    editor.replace(read()[Number(entry.dataset.entry)]?.sql ?? "");
    show(false);
  });
}

function draw() {
  const before = list.querySelector("input")?.value ?? "";
  const filter = element("input", { type: "search", placeholder: "Filter", value: before, ariaLabel: "Filter the history" });
  const entries = element("ol", { className: "plain entries" });
  filter.addEventListener("input", () => fill(entries, filter.value));
  const clear = element("button", { type: "button", textContent: "Clear", title: "Forget all of them" });
  clear.addEventListener("click", () => {
    localStorage.removeItem(KEY);
    filter.value = "";
    draw();
  });
  const about = element("p", { className: "quiet", textContent: "Kept in this browser only; statements that may hold secrets are not." });
  list.replaceChildren(element("div", { className: "head" }, element("h2", { textContent: "History" }), filter, clear), entries, about);
  fill(entries, before);
}

function fill(entries, filter) {
  const shown = read().map((entry, i) => [entry, i]).filter(([entry]) => entry.sql.toLowerCase().includes(filter.toLowerCase()));
  entries.replaceChildren(...shown.map(([entry, i]) => line(entry, i)));
  if (!shown.length) entries.append(element("li", { className: "quiet", textContent: filter ? "Nothing matches." : "Nothing yet." }));
}

function line(entry, i) {
  const rows = entry.failed ? "failed" : `${entry.rows.toLocaleString("en")} row${entry.rows === 1 ? "" : "s"}`;
  const took = entry.ms < 10_000 ? `${entry.ms.toFixed(entry.ms < 100 ? 1 : 0)} ms` : `${(entry.ms / 1000).toFixed(1)} s`;
  const said = `${new Date(entry.at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })} · ${took} · ${rows}`;
  const button = element("button", { type: "button", className: "entry" }, element("code", { textContent: entry.sql }), element("span", { className: "quiet", textContent: said }));
  button.dataset.entry = String(i);
  return element("li", {}, button);
}
