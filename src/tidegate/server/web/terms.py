"""Words of the field on the pages, each with its explanation from docs/glossary.md.

    term("since")                  a link to the entry, with the explanation as a tooltip
    term("garbage", "to sweep")    the same below another text
    hint("dot area: bytes", "…")   a word of one page alone, with an explanation of its own

`glossary.md` beside this file is docs/glossary.md. `static/tips.js` shows tooltips: when the pointer is over a word, when it has
the focus of the keyboard, and on touch screens at the first touch. Without scripts a word is still a link to its explanation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from tidegate.server.web.markup import Child, Html, el

_ROW = re.compile(r"^\| \*\*(.+?)\*\* \| (.+?) \|$", re.MULTILINE)
_MARK = re.compile(r"\*([^*]+)\*|`([^`]+)`|\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True)
class GlossaryEntry:
    """A word and its explanation, in the Markdown of docs/glossary.md."""

    word: str
    text: str

    @property
    def anchor(self) -> str:
        """The id of the entry on the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.word.lower()).strip("-")

    @property
    def plain(self) -> str:
        """The explanation without marks, as a tooltip shows it."""
        return _MARK.sub(lambda mark: mark[1] or mark[2] or mark[3], self.text)

    def markup(self) -> Iterator[Child]:
        """The explanation with links to the entries of other words."""
        at = 0
        for mark in _MARK.finditer(self.text):
            yield self.text[at : mark.start()]
            at = mark.end()
            yield el("code", mark[2]) if mark[2] else _reference(mark[1] or mark[3])
        yield self.text[at:]


@cache
def glossary() -> Mapping[str, GlossaryEntry]:
    """All entries by word, in lower case."""
    text = (files("tidegate.server.web") / "glossary.md").read_text("utf-8")
    entries = (GlossaryEntry(word, meaning.replace("\\|", "|")) for word, meaning in _ROW.findall(text))
    return MappingProxyType({entry.word.lower(): entry for entry in entries})


def term(word: str, text: str | None = None) -> Html:
    """Builds a word with its explanation; the glossary must have it."""
    entry = glossary()[word.lower()]
    return el(
        "a",
        text or word,
        href=f"/glossary#{entry.anchor}",
        class_="term",
        data_tip=entry.plain,
        data_word=word,
    )


def hint(text: Child, explanation: str) -> Html:
    """Builds a text with an explanation that belongs to one page alone."""
    return el("span", text, class_="term", tabindex="0", data_tip=explanation)


def _reference(word: str) -> Html:
    entry = next((glossary()[form] for form in _forms(word.lower()) if form in glossary()), None)
    return el("a", word, href=f"#{entry.anchor}") if entry else el("em", word)


def _forms(word: str) -> Iterator[str]:
    """The word as it may stand in the list: `parts` is under `part`, `pruned` under `prune`."""
    yield word
    for ending, base in (("ies", "y"), ("s", ""), ("ed", "e"), ("d", "")):
        if word.endswith(ending):
            yield word.removesuffix(ending) + base
