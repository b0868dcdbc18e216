// Completion: what may stand at the cursor. Names come from /catalog; columns are those of the collections that the statement names.

import { SQLDialect, syntaxTree } from "../vendor/codemirror.js";
import { AFTER_SET, AFTER_TABLE_WORD, KEYWORDS } from "./words.js";

export const dialect = SQLDialect.define({
  doubleQuotedStrings: false,
  doubleDollarQuotedStrings: true,
  operatorChars: "+-*/<>=~!@#%^&|`?",
  specialVar: "$",
  keywords: KEYWORDS.join(" ").toLowerCase(),
  types:
    "bool boolean int2 int4 int8 smallint int integer bigint float4 float8 real double precision numeric decimal text varchar char " +
    "bytea date time timestamp timestamptz interval uuid json jsonb mz_timestamp record",
});

const SILENT = new Set(["String", "QuotedIdentifier", "LineComment", "BlockComment", "Number"]);
const MOST_TABLES = 20; // as many as /catalog gives the columns of at once
const FRESH_MS = 15_000;
let catalog = null;
let loaded = 0;
const columns = new Map(); // name of a collection → its columns, or null while they are loaded

async function load(path) {
  const answer = await fetch(path, { headers: { "X-Tidegate": "1" } });
  return answer.ok ? answer.json() : {};
}

async function names() {
  if (!catalog || performance.now() - loaded > FRESH_MS) {
    loaded = performance.now();
    catalog = await load("/catalog").catch(() => catalog ?? {});
    columns.clear();
  }
  return catalog;
}

async function columnsOf(tables) {
  const missing = tables.filter((name) => !columns.has(name));
  if (missing.length) {
    const query = missing.map((name) => `of=${encodeURIComponent(name)}`).join("&");
    const found = (await load(`/catalog?${query}`).catch(() => ({}))).columns ?? {};
    for (const name of missing) columns.set(name, found[name] ?? []);
  }
  return tables.map((name) => [name, columns.get(name) ?? []]);
}

// The statement around the cursor, and the word that is typed.
function around(context) {
  const tree = syntaxTree(context.state);
  const inner = tree.resolveInner(context.pos, -1);
  let node = inner;
  while (node.parent && node.name !== "Statement") node = node.parent;
  const [from, to] = node.name === "Statement" ? [node.from, node.to] : [0, context.state.doc.length];
  return { inner, from, text: context.state.sliceDoc(from, Math.max(to, context.pos)), before: context.state.sliceDoc(from, context.pos) };
}

const unquoted = (name) => (name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name.toLowerCase());
const NAME = String.raw`(?:"(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_$]*)`;
const REFERENCE = new RegExp(String.raw`\b(?:from|join|into|update|table|describe)\s+(${NAME})(?:\s+(?:as\s+)?(${NAME}))?|,\s*(${NAME})(?:\s+(?:as\s+)?(${NAME}))?`, "giu");

// Collections that a statement names, by the names that it gives them.
function references(text, known) {
  const found = new Map();
  for (const [, first, alias, next, nextAlias] of text.matchAll(REFERENCE)) {
    const name = unquoted(first ?? next);
    if (!known.has(name)) continue;
    const given = alias ?? nextAlias;
    found.set(given && !KEYWORDS.includes(given.toUpperCase()) ? unquoted(given) : name, name);
  }
  return found;
}

const option = (label, apply, type, detail, boost, info) => ({ label, apply, type, detail, boost, ...(info ? { info } : {}) });
const tableOptions = (all, boost) => all.map((one) => option(one.name, one.sql, "collection", one.kind, boost));

export async function complete(context) {
  const { inner, text, before } = around(context);
  if (SILENT.has(inner.name)) return null;
  const word = context.matchBefore(/[\p{L}_][\p{L}\p{N}_$]*/u);
  const dotted = before.match(new RegExp(`(${NAME})\\.[\\p{L}\\p{N}_$]*$`, "u"));
  if (!word && !dotted && !context.explicit) return null;
  const { tables = [], functions = [], settings = [] } = await names();
  if (context.aborted) return null;
  const from = word?.from ?? context.pos;
  const prefix = before.slice(0, before.length - (context.pos - from));
  const used = references(text, new Set(tables.map((one) => one.name)));
  const typed = word?.text.toLowerCase();
  const result = (options) => ({ from, options: options.filter((one) => one.label.toLowerCase() !== typed) });
  if (dotted) {
    const name = used.get(unquoted(dotted[1])) ?? unquoted(dotted[1]);
    const [[, found]] = await columnsOf([name]);
    return result(found.map(([label, type, apply]) => option(label, apply, "column", type, 0)));
  }
  if (AFTER_TABLE_WORD.test(prefix)) return result(tableOptions(tables, 9));
  if (AFTER_SET.test(prefix)) return result(settings.map(([label, info]) => option(label, label, "setting", "", 9, info)));
  const begins = !prefix.trim();
  const whose = used.size ? [...new Set(used.values())] : begins ? [] : tables.map((one) => one.name); // no FROM yet: of any
  const own = (await columnsOf(whose.slice(0, MOST_TABLES))).flatMap(([name, found]) =>
    found.map(([label, type, apply]) => option(label, apply, "column", used.size === 1 ? type : `${type} · ${name}`, used.size ? 5 : 4)),
  );
  return result([
    ...own,
    ...[...used.keys()].map((name) => option(name, name, "collection", "", 3)),
    ...KEYWORDS.map((label) => option(label, label, "keyword", "", begins ? 5 : 1)),
    ...(begins ? [] : functions.map(([label, detail, info]) => option(label, `${label}(`, "function", detail.split("; ")[0].replace(label, ""), -1, [detail, info].filter(Boolean).join("\n")))),
    ...tableOptions(tables.filter((one) => !used.has(one.name)), -2),
  ]);
}

// A new snapshot of the names: what a run may have changed.
export function forgetNames() {
  catalog = null;
  columns.clear();
}
