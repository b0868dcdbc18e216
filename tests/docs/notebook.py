"""Runs the code cells of a notebook as its kernel would: one namespace, and the value of a last expression is shown."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

Shown = tuple[str, str | None, str | None]
"""What a cell prints, and its value as text and as HTML."""


def run_cells(notebook: dict[str, Any]) -> Iterator[Shown]:
    """What each code cell shows, one after the other."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield _run("".join(cell["source"]), names)


def shown(cell: dict[str, Any]) -> Shown:
    """What a notebook says that a cell shows."""
    printed, value, html = "", None, None
    for output in cell["outputs"]:
        printed += "".join(output.get("text", []))
        if "data" in output:
            value = "".join(output["data"]["text/plain"])
            html = "".join(output["data"].get("text/html", [])) or None
    return printed, value, html


def _run(source: str, names: dict[str, Any]) -> Shown:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(tree, "<cell>", "exec"), names)  # a notebook of this repository
        value = (
            eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if isinstance(last, ast.Expr)
            else None
        )  # a notebook of this repository
    if value is None:
        return out.getvalue(), None, None
    as_html = getattr(value, "_repr_html_", None)
    ours = type(value).__module__.startswith("tidegate")
    return out.getvalue(), repr(value), as_html() if as_html is not None and ours else None
