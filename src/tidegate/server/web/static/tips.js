// Tooltips: the text in data-tip of an element, shown for the pointer, for the focus of the keyboard, and at the first touch.
//
// One element with role="tooltip" serves the whole page. It can be pointed at itself, and Escape closes it.

const SHOW_AFTER = 250;
const HIDE_AFTER = 120;
const GAP = 8;
const tip = document.getElementById("tip");
let owner = null;
let timer = 0;
let touched = null;

function show(element) {
  clearTimeout(timer);
  if (!element.isConnected || !element.dataset.tip) return;
  hide();
  owner = element;
  tip.textContent = element.dataset.tip;
  tip.hidden = false;
  element.setAttribute("aria-describedby", "tip");
  place();
}

function hide() {
  clearTimeout(timer);
  if (!owner) return;
  owner.removeAttribute("aria-describedby");
  owner = null;
  tip.hidden = true;
}

// Below the element, or above it where there is no room; always inside of the window.
function place() {
  const at = owner.getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  tip.style.left = "0px";
  tip.style.top = "0px";
  const size = tip.getBoundingClientRect();
  const left = Math.min(Math.max(at.left + at.width / 2 - size.width / 2, GAP), width - size.width - GAP);
  const below = at.bottom + GAP;
  const top = below + size.height > innerHeight && at.top - GAP - size.height > 0 ? at.top - GAP - size.height : below;
  tip.style.left = `${Math.round(left)}px`;
  tip.style.top = `${Math.round(top)}px`;
}

const described = (target) => target.closest?.("[data-tip]");

if (tip) {
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    clearTimeout(timer);
    const element = described(event.target);
    if (event.target === tip || element === owner) return;
    timer = element ? setTimeout(show, SHOW_AFTER, element) : setTimeout(hide, HIDE_AFTER);
  });
  document.addEventListener("focusin", (event) => {
    const element = described(event.target);
    if (element && element.matches(":focus-visible")) show(element);
    else hide();
  });
  document.addEventListener("focusout", () => hide());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  document.addEventListener("pointerdown", (event) => {
    touched = event.pointerType === "touch" ? described(event.target) : null;
    if (!described(event.target) && event.target !== tip) hide();
  });
  // The first touch of a word explains it, the second one follows the link.
  document.addEventListener("click", (event) => {
    const element = described(event.target);
    if (!element || touched !== element || owner === element) return;
    if (element.matches("a.term")) event.preventDefault();
    show(element);
  });
  addEventListener("scroll", hide, { capture: true, passive: true });
  addEventListener("resize", hide);
}
