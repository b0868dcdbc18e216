// A chart of the rows of a result: columns for x and y, as lines, bars or points.

import uPlot from "../vendor/uplot.js";
import { valueOf } from "./text.js";

const HEIGHT = 300;
const SERIES = ["--l2", "--sql-string", "--sql-number", "--good", "--l4", "--soft"];
const STYLES = ["line", "bars", "points"];
const MOST_SERIES = 6;
const MOST_BARS = 2;
const FAR = 20; // columns whose values differ by more than this factor are not drawn together by default

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The values of a column: numbers, seconds since 1970, or texts.
function columnsOf(table) {
  const rows = [...table.tBodies[0].rows];
  return [...table.tHead.rows[0].cells].map((head, i) => {
    const kind = head.dataset.kind;
    const texts = rows.map((row) => valueOf(row.cells[i]));
    const values = kind === "number" ? texts.map((text) => (text === null ? null : Number(text))) : kind === "time" ? texts.map(seconds) : texts;
    return { name: head.textContent, kind, values, place: i };
  });
}

function seconds(text) {
  if (text === null) return null;
  const spelled = text.replace(" ", "T").replace(/(\.\d{3})\d+/, "$1").replace(/([+-]\d\d)$/, "$1:00");
  const zoned = /[+-]\d\d:\d\d$/.test(spelled) ? spelled : spelled.includes("T") ? `${spelled}Z` : `${spelled}T00:00:00Z`;
  const found = Date.parse(zoned) / 1000;
  return Number.isFinite(found) ? found : null;
}

// The first time, else the first of several numbers, else the first text; y is what else is a number.
function defaults(columns) {
  const numbers = columns.filter((one) => one.kind === "number");
  const text = columns.find((one) => one.kind === "text");
  const time = columns.find((one) => one.kind === "time");
  const x = time ?? (numbers.length > 1 && !(text && text.place === 0) ? numbers[0] : (text ?? null));
  const [first, ...others] = numbers.filter((one) => one !== x).sort((a, b) => isKey(a) - isKey(b) || a.place - b.place);
  const y = first ? [first, ...others.filter((one) => !isKey(one) && isNear(one, first))].slice(0, 3) : [];
  const style = x && x === text ? "bars" : "line";
  return { x: x?.place ?? -1, y: y.map((one) => one.place).slice(0, style === "bars" ? MOST_BARS : MOST_SERIES), style };
}

const isKey = ({ name }) => /(^|_)id$/i.test(name);
const size = ({ values }) => values.reduce((most, value) => Math.max(most, Math.abs(value ?? 0) || 0), 0);
const isNear = (one, other) => size(one) * FAR > size(other) && size(other) * FAR > size(one);

export function chartOf(answer, table) {
  const columns = columnsOf(table);
  const chosen = defaults(columns);
  const place = document.createElement("div");
  place.className = "plot";
  const canvas = document.createElement("div");
  canvas.className = "canvas";
  const said = document.createElement("p");
  said.className = "quiet";
  place.append(controls(columns, chosen, () => draw()), canvas, said);
  let plot = null;
  const draw = () => {
    plot?.destroy();
    plot = null;
    const drawn = { ...chosen, y: chosen.style === "bars" ? chosen.y.slice(0, MOST_BARS) : chosen.y };
    const data = { ...dataOf(columns, drawn), dropped: drawn.y.length < chosen.y.length };
    said.textContent = sentence(answer, table, data);
    canvas.replaceChildren();
    if (drawn.y.length && data.x.length) plot = new uPlot(optionsOf(columns, drawn, data, canvas.clientWidth || 800), [data.x, ...data.y], canvas);
  };
  requestAnimationFrame(draw);
  new ResizeObserver(() => plot && canvas.clientWidth && plot.setSize({ width: canvas.clientWidth, height: HEIGHT })).observe(place);
  new MutationObserver(() => place.isConnected && draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return place;
}

// x in rising order with y beside it; texts are numbered as they come.
function dataOf(columns, chosen) {
  const x = columns[chosen.x];
  const rows = columns[0].values.map((_, i) => i);
  if (!x || x.kind === "text" || x.kind === "json") {
    const labels = x ? x.values.map((text) => text ?? "NULL") : null;
    return { x: rows, y: chosen.y.map((i) => columns[i].values), labels, left: 0 };
  }
  const usable = rows.filter((i) => Number.isFinite(x.values[i])).sort((a, b) => x.values[a] - x.values[b]);
  const y = chosen.y.map((i) => usable.map((row) => (Number.isFinite(columns[i].values[row]) ? columns[i].values[row] : null)));
  return { x: usable.map((i) => x.values[i]), y, labels: null, left: rows.length - usable.length };
}

function sentence(answer, table, data) {
  const count = table.tBodies[0].rows.length.toLocaleString("en");
  const part = answer.dataset.cut !== undefined ? `Only the first ${count} rows of the result are drawn. ` : "";
  const bars = data.dropped ? `Bars are drawn of ${MOST_BARS} columns at most. ` : "";
  const left = data.left ? `${data.left.toLocaleString("en")} rows without a value for x are left out. ` : "";
  return part + left + bars;
}

// ---------------------------------------------------------------- uPlot

function optionsOf(columns, chosen, data, width) {
  const x = columns[chosen.x];
  const isTime = x?.kind === "time";
  const ink = colour("--soft");
  const axis = { stroke: ink, grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
  const named = (values) => values.map((value) => (Number.isInteger(value) ? (data.labels?.[value] ?? "") : ""));
  const shownTime = (_, value) => (value === null ? "--" : isoTime(value, 1));
  const labelled = isTime ? { values: (_, splits, __, ___, step) => splits.map((at) => isoTime(at, step)), space: 90 } : data.labels ? { values: (_, values) => named(values), space: 70, incrs: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000] } : {};
  return {
    width, height: HEIGHT, tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "Etc/UTC"),
    scales: { x: { time: isTime, ...(chosen.style === "bars" ? { range: padded(data.x) } : {}) }, y: { range: rangeOf(chosen.style) } },
    axes: [{ ...axis, ...labelled }, { ...axis, size: 64 }],
    series: [{ label: x?.name ?? "row", ...(data.labels ? { value: (_, value) => data.labels[value] ?? "" } : isTime ? { value: shownTime } : {}) }, ...chosen.y.map((i, at) => series(columns[i].name, at, chosen))],
  };
}

// A time as people read it at a distance of `step` seconds between ticks: a month, a day, a minute, a second.
function isoTime(at, step) {
  const text = new Date(at * 1000).toISOString().replace("T", " ");
  if (step >= 86_400 * 28) return text.slice(0, 7);
  if (step >= 86_400) return text.slice(0, 10);
  if (step >= 60) return text.endsWith("00:00:00.000Z") ? text.slice(0, 10) : text.slice(11, 16);
  return text.slice(0, step < 1 ? 23 : 19).slice(step > 1 ? 11 : 0);
}

// Bars begin at zero, and half of the first and last one needs room.
const rangeOf = (style) => (_, low, high) => (style === "bars" ? uPlot.rangeNum(Math.min(low ?? 0, 0), Math.max(high ?? 1, 0), 0.1, true) : uPlot.rangeNum(low ?? 0, high ?? 1, 0.1, true));
const padded = (x) => (_, low, high) => {
  const step = x.length > 1 ? (x[x.length - 1] - x[0]) / (x.length - 1) : 1;
  return [low - step / 2, high + step / 2];
};

function series(label, at, { style, y }) {
  const stroke = colour(SERIES[at % SERIES.length]);
  if (style === "bars") return { label, stroke, fill: stroke, width: 0, paths: uPlot.paths.bars({ size: [0.7 / Math.max(y.length, 1), 60], align: y.length > 1 ? (at === 0 ? -1 : at === 1 ? 1 : 0) : 0 }), points: { show: false } };
  if (style === "points") return { label, stroke, paths: () => null, points: { show: true, size: 6, fill: stroke } };
  return { label, stroke, width: 2, spanGaps: false };
}

// ---------------------------------------------------------------- what is drawn

function controls(columns, chosen, draw) {
  const row = document.createElement("div");
  row.className = "axes";
  const x = select("x", [["-1", "row number"], ...columns.map((one) => [String(one.place), one.name])], String(chosen.x), (value) => (chosen.x = Number(value)));
  const style = select("draw", STYLES.map((one) => [one, one]), chosen.style, (value) => (chosen.style = value));
  row.append(x, style, ...columns.filter((one) => one.kind === "number").map((one) => check(one, chosen)));
  row.addEventListener("change", draw);
  return row;
}

function select(label, options, value, choose) {
  const made = document.createElement("label");
  made.className = "axis";
  const list = document.createElement("select");
  list.append(...options.map(([id, text]) => new Option(text, id, false, id === value)));
  list.dataset.plot = label;
  list.addEventListener("change", () => choose(list.value));
  made.append(label, list);
  return made;
}

function check(column, chosen) {
  const made = document.createElement("label");
  made.className = "axis";
  const box = document.createElement("input");
  Object.assign(box, { type: "checkbox", checked: chosen.y.includes(column.place) });
  box.dataset.plot = "y";
  box.addEventListener("change", () => {
    const others = chosen.y.filter((i) => i !== column.place);
    chosen.y = box.checked ? [...others, column.place].slice(-MOST_SERIES) : others;
  });
  made.append(box, column.name);
  return made;
}
