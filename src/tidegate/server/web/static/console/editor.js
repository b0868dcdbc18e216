// The editor of the query box: CodeMirror in the place of a text field, which stays in the form, hidden, with the same text.

import {
  Decoration, EditorState, EditorView, HighlightStyle, Prec, StateEffect, StateField, acceptCompletion, autocompletion,
  bracketMatching, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap, completionStatus, defaultKeymap, drawSelection,
  ensureSyntaxTree, highlightSpecialChars, history, historyKeymap, indentOnInput, keymap, lineNumbers, moveCompletionSelection,
  placeholder, selectedCompletionIndex, sql, syntaxHighlighting, tags,
} from "../vendor/codemirror.js";
import { complete, dialect } from "./completion.js";

const PARSE_MS = 200;

// Colours are in console.css, so that they follow light and dark.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], class: "sql-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "sql-string" },
  { tag: [tags.number, tags.bool, tags.null], class: "sql-number" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], class: "sql-comment" },
  { tag: [tags.typeName], class: "sql-type" },
  { tag: [tags.operator, tags.punctuation], class: "sql-operator" },
]);

// ---------------------------------------------------------------- errors at their place

const setMark = StateEffect.define();
const markField = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    let found = marks.map(transaction.changes);
    for (const effect of transaction.effects)
      if (effect.is(setMark))
        found = effect.value ? Decoration.set([Decoration.mark({ class: "sql-error", attributes: { title: effect.value.message } }).range(effect.value.from, effect.value.to)]) : Decoration.none;
    return found;
  },
  provide: (field) => EditorView.decorations.from(field),
});

// Where an error box says that its error is; at the end of the text it is the last character.
function errorSpan(box, text) {
  if (!box) return null;
  const end = text.trimEnd().length;
  let from = Math.min(Number(box.dataset.from), end);
  let to = Math.min(Number(box.dataset.to), end);
  if (to <= from) [from, to] = [Math.max(from - 1, 0), from];
  return to > from ? { from, to, message: box.querySelector(".what")?.textContent ?? "" } : null;
}

// ---------------------------------------------------------------- statements

// The statements of the text, as ranges.
function statements(state) {
  const tree = ensureSyntaxTree(state, state.doc.length, PARSE_MS);
  const found = [];
  for (let node = tree?.topNode.firstChild; node; node = node.nextSibling)
    if (node.name === "Statement") found.push({ from: node.from, to: node.to });
  return found;
}

// The statement that the cursor is in or behind, else the first one.
function statementAt(state) {
  const all = statements(state);
  const at = state.selection.main.head;
  return all.findLast((one) => one.from <= at) ?? all[0] ?? { from: 0, to: state.doc.length };
}

// A part of the text behind blanks, so that lines, columns and offsets are those of the whole text.
function inPlace(text, { from, to }) {
  return text.slice(0, from).replace(/[^\n]/g, " ") + text.slice(from, to);
}

// ---------------------------------------------------------------- keys

function acceptFirst(view) {
  if (completionStatus(view.state) !== "active") return false;
  if (selectedCompletionIndex(view.state) === null) moveCompletionSelection(true)(view);
  return acceptCompletion(view);
}

function keysOf(actions) {
  const escape = () => (actions.escape(), true);
  return [
    Prec.highest(keymap.of([
      { key: "Mod-Enter", run: () => (actions.run(false), true) },
      { key: "Ctrl-Enter", run: () => (actions.run(false), true) },
      { key: "Mod-Shift-Enter", run: () => (actions.run(true), true) },
      { key: "Tab", run: acceptFirst },
    ])),
    keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, { key: "Escape", run: escape }, ...defaultKeymap]),
  ];
}

// Typing over a selection, and deleting it, as one change: left to the browser, it may write style attributes, which the page's policy forbids.
const overType = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (!document.getSelection().isCollapsed) document.dispatchEvent(new Event("selectionchange")); // one that was just made is read first
    const { from, to, empty } = view.state.selection.main;
    if (empty || view.composing) return false;
    if (event.inputType.startsWith("delete")) {
      event.preventDefault();
      view.dispatch(view.state.update(view.state.replaceSelection(""), { userEvent: "delete.selection" }));
      return true;
    }
    if (event.inputType !== "insertText" || !event.data) return false;
    event.preventDefault();
    const insert = () => view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, event.data, insert))) view.dispatch(insert());
    return true;
  },
});

// ---------------------------------------------------------------- the editor

export function createEditor(field, actions) {
  const label = { id: field.id, "aria-label": "SQL", "aria-describedby": "verdict", spellcheck: "false", autocapitalize: "off" };
  let statement = null;
  let failed = null; // where the last run failed, until the text changes
  const followed = EditorView.updateListener.of((update) => {
    if (update.docChanged) {
      field.value = update.state.doc.toString();
      failed = null;
      actions.changed();
    } else if (update.selectionSet && statements(update.state).length > 1 && statementAt(update.state).from !== statement) actions.moved();
    if (update.docChanged || update.selectionSet) statement = statementAt(update.state).from;
  });
  const inText = (at) => Math.min(at, field.value.length);
  const view = new EditorView({
    state: EditorState.create({
      doc: field.value,
      selection: { anchor: inText(field.selectionStart), head: inText(field.selectionEnd) }, // typing goes on where it was
      extensions: [
        EditorView.cspNonce.of(document.querySelector("meta[name=style-nonce]")?.nonce ?? ""),
        EditorView.contentAttributes.of(label),
        EditorView.lineWrapping,
        lineNumbers(), history(), drawSelection(), highlightSpecialChars(), indentOnInput(), bracketMatching(), closeBrackets(),
        placeholder(field.placeholder), sql({ dialect }), syntaxHighlighting(colours), markField, followed, overType,
        autocompletion({ override: [complete], selectOnOpen: false, interactionDelay: 0, icons: false, maxRenderedOptions: 60 }),
        keysOf(actions),
      ],
    }),
  });
  field.id = `${field.id}-text`;
  field.hidden = true;
  field.autofocus = false;
  field.before(view.dom);
  const text = () => view.state.doc.toString();
  return {
    text,
    statement: () => (statements(view.state).length > 1 ? inPlace(text(), statementAt(view.state)) : text()),
    // What a run sends: what is selected, else the statement at the cursor, or all.
    asked(which) {
      const { from, to, empty } = view.state.selection.main;
      closeCompletion(view);
      if (!empty && text().slice(from, to).trim()) return inPlace(text(), { from, to });
      return which === "all" ? text() : this.statement();
    },
    replace: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next }, selection: { anchor: next.length } }),
    mark: (box) => view.dispatch({ effects: setMark.of(errorSpan(box, text()) ?? failed) }),
    markFailed(box) {
      failed = errorSpan(box, text());
      this.mark(box);
    },
    focus: () => view.focus(),
    blur: () => view.contentDOM.blur(),
    holds: (node) => view.dom.contains(node),
  };
}
