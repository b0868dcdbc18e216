// What static/console uses of CodeMirror; VENDORED.md says how codemirror.js is made of it.
export { EditorState, StateEffect, StateField, Prec } from "@codemirror/state";
export { EditorView, Decoration, keymap, lineNumbers, drawSelection, highlightSpecialChars, hoverTooltip, placeholder } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, toggleComment } from "@codemirror/commands";
export { autocompletion, acceptCompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap, completionStatus, moveCompletionSelection, selectedCompletionIndex, snippetCompletion } from "@codemirror/autocomplete";
export { HighlightStyle, bracketMatching, ensureSyntaxTree, indentOnInput, syntaxHighlighting, syntaxTree } from "@codemirror/language";
export { SQLDialect, sql } from "@codemirror/lang-sql";
export { tags } from "@lezer/highlight";
