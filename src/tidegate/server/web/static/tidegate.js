// Scripts of the pages. Pages work without them; they only reload pieces of a page.
//
//   data-ask="/explain"      a form: its fields are sent there when they change, shortly after the last key
//   data-load="/parts"       a <details>: loaded when it is opened
//
// A response has elements with ids; each replaces the element of the page with its id. The query box itself is in console/, which
// sets form.statement: the text that is explained while one types.

const WAIT = 220;
const page = document;
const one = (selector) => page.querySelector(selector);

function swap(html) {
  const made = page.createElement("template");
  made.innerHTML = html;
  for (const fresh of [...made.content.children]) {
    const old = fresh.id && page.getElementById(fresh.id);
    if (!old) continue;
    const focus = kept(old);
    old.replaceWith(fresh);
    focus();
  }
}

// Keeps the focus inside an element that is replaced.
function kept(old) {
  const at = page.activeElement;
  if (!at || !old.contains(at)) return () => {};
  const find = at.id ? `#${CSS.escape(at.id)}` : at.name ? `[name="${at.name}"]${at.type === "checkbox" || at.type === "radio" ? `[value="${at.value}"]` : ""}` : null;
  return () => find && one(find)?.focus({ preventScroll: true });
}

async function post(path, fields, signal) {
  const answer = await fetch(path, { method: "POST", body: fields, signal, headers: { "X-Tidegate": "1" } });
  if (answer.status === 401) location.assign("/login");
  return answer;
}

// ---------------------------------------------------------------- the query box

const form = one("form[data-ask]");
let asking = null;
let later = 0;

function fields() {
  const given = new URLSearchParams(new FormData(form));
  if (form.statement) given.set("sql", form.statement());
  return given;
}

async function ask() {
  asking?.abort();
  const mine = (asking = new AbortController());
  try {
    const answer = await post(form.dataset.ask, fields(), mine.signal);
    const html = await answer.text();
    if (asking === mine && answer.ok) {
      swap(html);
      form.dataset.asked = String(Number(form.dataset.asked ?? 0) + 1);
      form.dispatchEvent(new Event("asked"));
      listing();
    } else if (asking === mine) say(failure(answer, html));
  } catch (error) {
    if (error.name !== "AbortError") say("The server does not respond.");
  }
}

// Describes a failed response: plain text is shown, a page is not shown inside another.
function failure(answer, body) {
  const plain = (answer.headers.get("content-type") ?? "").startsWith("text/plain");
  return plain && body ? body : `The server failed (${answer.status}).`;
}

function say(text) {
  const place = page.getElementById("result") ?? page.getElementById("verdict");
  const box = page.createElement("div");
  box.className = "trouble";
  box.setAttribute("role", "alert");
  box.textContent = text;
  place?.replaceChildren(box);
}

function soon() {
  clearTimeout(later);
  later = setTimeout(ask, WAIT);
}

export { ask, failure, fields, form, one, post, say, soon, swap };

// ---------------------------------------------------------------- parts as a table

function listing() {
  const list = one("details[data-load]");
  if (list?.open) post(list.dataset.load, fields()).then(async (answer) => answer.ok && swap(await answer.text())).catch(() => {});
}
one("details[data-load]")?.addEventListener("toggle", listing);

// ---------------------------------------------------------------- the map

// x y width height parts rows bytes level id kept whole deleted
function marks(map) {
  if (map.read) return map.read;
  const text = map.dataset.marks;
  map.read = !text ? [] : text.split(";").map((line) => {
    const [x, y, w, h, parts, rows, bytes, level, id, kept, whole, deleted] = line.split(" ");
    return { x: +x, y: +y, w: Math.max(+w, 4), h: Math.max(+h, 4), parts: +parts, rows: +rows, bytes: bytes.replace("_", " "), level: +level, id: +id, kept: +kept, whole: +whole, deleted: +deleted };
  });
  return map.read;
}

function describe(map, mark) {
  const asked = map.classList.contains("asked");
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const words = [];
  if (mark.parts > 1) words.push(plural(mark.parts, "part"));
  else words.push(`Part ${mark.id}`);
  words.push(mark.parts > 1 ? `up to level ${mark.level}` : `level ${mark.level}`, plural(mark.rows, "row"), mark.bytes);
  if (mark.deleted) words.push(`${plural(mark.deleted, "row")} deleted`);
  const number = (count) => count.toLocaleString("en");
  if (asked && mark.parts > 1) words.push(`${number(mark.parts - mark.kept)} pruned`, `${number(mark.kept - mark.whole)} read`, `${number(mark.whole)} proven whole`);
  else if (asked) words.push(mark.whole ? "proven whole" : mark.kept ? "read" : "pruned");
  return words;
}

function point(map, mark) {
  map.at = mark;
  const cursor = map.querySelector(".cursor");
  for (const [name, value] of [["x", mark ? mark.x - 1 : 0], ["y", mark ? mark.y - 1 : 0], ["width", mark ? mark.w + 2 : 0], ["height", mark ? mark.h + 2 : 0]])
    cursor.setAttribute(name, value);
  if (!mark) return;
  const [first, ...rest] = describe(map, mark);
  const bold = page.createElement("b");
  bold.textContent = first;
  const more = mark.parts === 1 ? " · press Enter or click for details" : "";
  page.getElementById("mark").replaceChildren(bold, ` · ${rest.join(" · ")}${more}`);
}

// Finds the smallest mark under the pointer, else the nearest one close by.
function under(map, event) {
  const box = map.getBoundingClientRect();
  const [, , width, height] = map.getAttribute("viewBox").split(" ").map(Number);
  const scale = Math.min(box.width / width, box.height / height);
  const x = (event.clientX - box.left - (box.width - width * scale) / 2) / scale;
  const y = (event.clientY - box.top - (box.height - height * scale) / 2) / scale;
  let best = null;
  let least = Infinity;
  for (const mark of marks(map)) {
    const dx = Math.max(mark.x - x, 0, x - mark.x - mark.w);
    const dy = Math.max(mark.y - y, 0, y - mark.y - mark.h);
    const far = dx || dy ? 1e9 + dx * dx + dy * dy : mark.w * mark.h;
    if (far < least && (far < 1e9 || far - 1e9 < 200)) [best, least] = [mark, far];
  }
  return best;
}

function walk(map, key) {
  const all = marks(map);
  if (!all.length) return;
  const across = key === "ArrowLeft" || key === "ArrowRight";
  const middle = (mark) => [mark.x + mark.w / 2, -(mark.y + mark.h / 2)];
  const order = [...all].sort((a, b) => {
    const [ax, ay] = middle(a);
    const [bx, by] = middle(b);
    return across ? ax - bx || ay - by : ay - by || ax - bx;
  });
  const at = map.at ? order.indexOf(map.at) : -1;
  const step = key === "ArrowRight" || key === "ArrowUp" ? 1 : -1;
  point(map, order[at < 0 ? 0 : Math.min(Math.max(at + step, 0), order.length - 1)]);
}

async function part(map) {
  if (!map.at || map.at.parts !== 1 || !form) return;
  const given = fields();
  given.set("part_of", map.dataset.collection);
  given.set("part", map.at.id);
  try {
    const answer = await post("/part", given);
    const html = await answer.text();
    answer.ok ? swap(html) : say(failure(answer, html));
  } catch {
    say("The server does not respond.");
  }
}

const map = (event) => event.target.closest?.("svg.map[data-marks]");
page.addEventListener("pointermove", (event) => {
  const over = map(event);
  if (over) point(over, under(over, event));
});
page.addEventListener("click", (event) => {
  const over = map(event);
  if (!over) return;
  point(over, under(over, event));
  part(over);
});
page.addEventListener("keydown", (event) => {
  const over = map(event);
  if (!over) return;
  if (event.key.startsWith("Arrow")) {
    event.preventDefault();
    walk(over, event.key);
  } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) part(over);
});

// ---------------------------------------------------------------- narrow screens

// Shows the drawing of the map that is made for the width of the window.
const narrow = matchMedia("(max-width: 720px)");
function fit() {
  const canvas = one("#chart .canvas");
  const drawn = canvas?.querySelector("svg.map");
  const other = canvas?.querySelector("template[data-narrow]");
  if (!drawn || !other || drawn.classList.contains("narrow") === narrow.matches) return;
  const fresh = narrow.matches ? other.content.querySelector("svg") : canvas.wide;
  if (narrow.matches) canvas.wide = drawn;
  drawn.replaceWith(narrow.matches ? fresh.cloneNode(true) : fresh);
}
narrow.addEventListener("change", fit);
new MutationObserver(fit).observe(page.body, { childList: true, subtree: true });
fit();

// ---------------------------------------------------------------- light or dark

one("[data-theme-toggle]")?.addEventListener("click", () => {
  const root = page.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});
