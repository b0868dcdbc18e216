// Keeps pieces of a page up to date: elements with an id and data-live="milliseconds".
//
// The page itself is loaded again and the pieces are compared with it: only texts, attributes and elements that differ are
// changed, so that focus, selection and scroll positions stay. It pauses while the page is hidden, and the switch in the bar
// turns it off in this browser. A page that takes long to build is loaded less often.

const SHARE = 10; // the server is at rest for so many times the duration of a request
const TIMEOUT = 15_000;
const OFF = "live-off";
const button = document.querySelector("[data-live-toggle]");
const pieces = () => [...document.querySelectorAll("[data-live][id]")];
let timer = 0;
let loading = false;

const isOn = () => localStorage.getItem(OFF) === null;

const key = (node) => (node.nodeType === 1 ? node.id || node.dataset.key || "" : "");

// Makes `old` equal to `fresh`, with as few changes as possible.
function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeName !== fresh.nodeName || key(old) !== key(fresh)) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== 1) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && name !== "open" && name !== "aria-describedby") old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  patchChildren(old, fresh);
}

function patchChildren(old, fresh) {
  const named = new Map([...old.children].filter(key).map((child) => [key(child), child]));
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = key(child) ? named.get(key(child)) : null;
    if (same && same !== at) old.insertBefore(same, at);
    else if (!at || (key(child) && !same) || (!key(child) && key(at))) {
      old.insertBefore(child, at);
      continue;
    }
    const here = same ?? at;
    at = here.nextSibling;
    patch(here, child);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

async function refresh() {
  clearTimeout(timer);
  if (loading || document.hidden || !isOn()) return;
  loading = true;
  const began = performance.now();
  try {
    const headers = { Accept: "text/html", "X-Tidegate": "live" };
    const answer = await fetch(location.href, { headers, signal: AbortSignal.timeout(TIMEOUT) });
    const isPage = answer.headers.get("content-type")?.startsWith("text/html") && !answer.redirected;
    showAnswer(isPage);
    if (isPage && isOn()) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const piece of pieces()) {
        const other = fresh.getElementById(piece.id);
        if (other) patch(piece, other);
      }
      document.documentElement.dataset.refreshed = String(Number(document.documentElement.dataset.refreshed ?? 0) + 1);
    }
  } catch {
    showAnswer(false); // and try again later
  }
  loading = false;
  wait((performance.now() - began) * SHARE);
}

function wait(least) {
  clearTimeout(timer);
  const every = Math.min(...pieces().map((piece) => Number(piece.dataset.live)));
  if (Number.isFinite(every)) timer = setTimeout(refresh, Math.max(every, least));
}

// Says on the switch that what the page shows may be old.
function showAnswer(came) {
  button.firstElementChild.textContent = came ? "Live" : "No answer";
  button.classList.toggle("stale", !came);
}

function showSwitch() {
  button.hidden = false;
  button.setAttribute("aria-pressed", String(isOn()));
}

if (button && pieces().length) {
  showSwitch();
  button.addEventListener("click", () => {
    isOn() ? localStorage.setItem(OFF, "1") : localStorage.removeItem(OFF);
    showSwitch();
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  addEventListener("storage", () => {
    showSwitch();
    refresh();
  });
  wait(0);
}
