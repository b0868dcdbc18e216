"""HTML and SVG as values: all text that is not markup is escaped.

    el("p", "rows: ", el("b", 3), class_="fact")        <p class="fact">rows: <b>3</b></p>
    el("p", "<script>")                                  <p>&lt;script&gt;</p>
    el("input", name="sql", autofocus=True)              <input name="sql" autofocus>

Attributes are keywords: `class_` is `class`, `data_poll` is `data-poll`; True is an attribute without a value, None and False
omit it. Styles and event handlers are refused here, since the page's Content-Security-Policy (`guard.py`) blocks them.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias, Union

VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))


class Html(str):
    """A text that is markup, and is not escaped again."""

    __slots__ = ()


Child: TypeAlias = Union[str, int, Html, "Iterable[Child]", None]
Attribute: TypeAlias = str | int | float | bool | None


def el(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Builds an element."""
    head = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        assert not children
        return Html(f"<{head}>")
    return Html(f"<{head}>{join_html(children)}</{name}>")


def join_html(children: Child) -> Html:
    """Joins children, escaping all that is not markup."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str | int):
        return Html(escape(str(children)))
    return Html("".join(map(join_html, children)))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    assert not name.startswith(("on", "style")), name
    if value is True:
        return f" {name}"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{escape(shown)}"'
