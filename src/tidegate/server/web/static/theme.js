// Light or dark, before anything is drawn: what was chosen, else what the system says.
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
