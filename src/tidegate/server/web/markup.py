"""HTML and SVG as values: whatever is not markup already is escaped, so that nobody can forget to.

    el("p", "rows: ", el("b", 3), class_="fact")        <p class="fact">rows: <b>3</b></p>
    el("p", "<script>")                                  <p>&lt;script&gt;</p>
    el("input", name="sql", autofocus=True)              <input name="sql" autofocus>

Attributes are keywords: `class_` is `class`, `data_poll` is `data-poll`; True is an attribute without a value, None and False
are none at all. There is no way to give a style or a handler: the page's policy (`guard.py`) would not let it work, so
it is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias, Union

VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))


class Html(str):
    """A text that is markup."""

    __slots__ = ()


Child: TypeAlias = Union[str, int, Html, "Iterable[Child]", None]
Attribute: TypeAlias = str | int | float | bool | None


def el(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element."""
    head = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        assert not children
        return Html(f"<{head}>")
    return Html(f"<{head}>{join(children)}</{name}>")


def join(children: Child) -> Html:
    """Several, one after the other."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str | int):
        return Html(escape(str(children)))
    return Html("".join(map(join, children)))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    named = key.rstrip("_").replace("_", "-")
    assert not named.startswith(("on", "style")), named
    if value is True:
        return f" {named}"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {named}="{escape(shown)}"'
