// Texts: values of cells, JSON with line breaks, the clipboard.

// The value of a cell of a result, whether it is open or not; null: NULL.
export function valueOf(cell) {
  const inner = cell.firstElementChild;
  if (inner?.classList.contains("null")) return null;
  return inner?.dataset.value ?? inner?.dataset.shown ?? cell.textContent;
}

// JSON with line breaks and indents. The text is not parsed: numbers keep their spelling, and keys their order.
export function formatJson(text) {
  let depth = 0;
  let shown = "";
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs) ?? [];
  for (const [i, token] of tokens.entries()) {
    const next = tokens[i + 1];
    if (token === "{" || token === "[") {
      const empty = next === "}" || next === "]";
      depth += empty ? 0 : 1;
      shown += empty ? token : `${token}\n${"  ".repeat(depth)}`;
    } else if (token === "}" || token === "]") {
      const empty = tokens[i - 1] === "{" || tokens[i - 1] === "[";
      depth -= empty ? 0 : 1;
      shown += empty ? token : `\n${"  ".repeat(Math.max(depth, 0))}${token}`;
    } else if (token === ",") shown += `,\n${"  ".repeat(depth)}`;
    else shown += token === ":" ? ": " : token;
  }
  return shown;
}

// Whether it was copied. Without a secure context browsers offer only the old way, by a selection.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}
