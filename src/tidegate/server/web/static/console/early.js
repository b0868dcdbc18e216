// What is asked of the query box before its editor is there is kept, and done by it: a Run by keys or by its button, an example.
//
// A page is drawn, and its text field has the focus, before the modules of the editor have come. What is typed meanwhile is in the
// field; the editor takes it over with the cursor. If the modules never come, the form is sent as without scripts.

(() => {
  let waiting = null;
  let loaded = false; // without an editor by then, there will be none: the form is sent as it is
  const box = () => document.querySelector("form[data-ask]");
  const isEarly = () => box() && box().dataset.ready === undefined;

  function wait(which, analyze) {
    waiting = { which, analyze };
    box().wanted = waiting;
  }

  document.addEventListener("keydown", (event) => {
    if (!isEarly() || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (loaded) box().submit();
    else wait(event.shiftKey ? "all" : "cursor", false);
  });
  document.addEventListener("submit", (event) => {
    if (loaded || !isEarly() || event.target !== box()) return;
    event.preventDefault();
    wait("all", event.submitter?.name === "analyze");
  });
  document.addEventListener("click", (event) => {
    const chip = event.target.closest?.("[data-fill]");
    if (chip && isEarly()) document.querySelector("[data-query]").value = chip.dataset.fill;
  });
  addEventListener("load", () => {
    loaded = true;
    if (waiting && isEarly()) box().submit();
  });
})();
