// The session of this browser tab: settings that are changed on /settings count for the query boxes of all its pages.
//
//   <span data-session="id">      on /settings: the session whose settings its forms change; data-chosen if it was asked for

const KEY = "session";
const mark = document.querySelector("[data-session]");
const known = sessionStorage.getItem(KEY);

if (mark && mark.dataset.chosen === undefined && known) location.replace(`/settings?box=${encodeURIComponent(known)}`);
if (mark) document.addEventListener("submit", () => sessionStorage.setItem(KEY, mark.dataset.session));

const field = document.querySelector('form[data-ask] input[name="box"]');
if (field && known) field.value = known;
