r"""Patterns of FILES: which names match, and where one must look for them.

    pattern                      matches
    /in/day-1.json               that file
    /in/*.json                   in that folder; `*` and `?` never match a slash
    /in/20[0-9][0-9]/x[!a].csv   one of these characters; none of these
    /in/{json,csv}/*             one of these words
    /in/**/*.json                in that folder, or any number of folders below it
    /in/, /in/**                 every file below it

Who writes files puts them first where nobody looks: names that begin with a dot, `_temporary` folders, `_SUCCESS` marks and what
ends with `.tmp`, `._COPYING_` or `.inprogress` are passed over, unless the pattern spells it so (`/in/.cache/*`, `/in/*.tmp`).

>>> pattern = Pattern.of("/in/**/*.json")
>>> pattern.folder, pattern.matches("/in/a/b.json"), pattern.matches("/in/a/.b.json"), pattern.matches("/in/b.csv")
('/in', True, False, False)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_SHOWN = r"(?!\.|_temporary(?:/|\Z)|_SUCCESS(?:/|\Z)|[^/]*\.(?:tmp|_COPYING_|inprogress)(?:/|\Z))"
"""In front of a name: that it is none of those to pass over."""
_ANY = "**"
_WILD = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class Pattern:
    """A pattern, by the names between its slashes; the first is empty, as a pattern begins with a slash."""

    segments: tuple[str, ...]

    @staticmethod
    def of(text: str) -> Pattern:
        """The pattern that a text spells; it begins with a slash. A folder means all that is below it."""
        names = [name for i, name in enumerate(text.split("/")) if name or not i]
        if text.endswith("/"):
            names.append(_ANY)
        if names[-1] == _ANY:
            names.append("*")
        return Pattern(tuple(names))

    @cached_property
    def fixed(self) -> int:
        """How many segments, from the left, are names and no patterns; the last is never counted."""
        wild = (i for i, segment in enumerate(self.segments) if _WILD.search(segment))
        return min(next(wild, len(self.segments)), len(self.segments) - 1)

    @property
    def folder(self) -> str:
        """Where all that matches is."""
        return "/".join(self.segments[: self.fixed])

    @cached_property
    def deep(self) -> int | None:
        """The first segment that stands for any number of folders."""
        return next((i for i, segment in enumerate(self.segments) if segment == _ANY), None)

    def matches(self, path: str) -> bool:
        """Whether a path, from its first slash on, is meant."""
        return self._whole.match(path) is not None

    def descends(self, segment: int, name: str) -> bool:
        """Whether a folder of that name may stand at a segment; below `**`, at any from there on."""
        last = len(self._one) - 1 if self.segments[segment] == _ANY else segment + 1
        return any(one.match(name) is not None for one in self._one[segment:last])

    @cached_property
    def _one(self) -> list[re.Pattern[str]]:
        return [
            re.compile(_SHOWN if segment == _ANY else _regex(segment) + r"\Z") for segment in self.segments
        ]

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        *folders, last = self.segments
        text = "".join(f"(?:{_SHOWN}[^/]+/)*" if one == _ANY else _regex(one) + "/" for one in folders)
        return re.compile(text + _regex(last) + r"\Z")


def _regex(segment: str) -> str:
    """A name or a pattern of names; what is passed over is, unless the segment itself looks like it."""
    shown = _SHOWN if _WILD.search(segment) and re.match(_SHOWN, segment) else ""
    return shown + _names(segment)


def _names(text: str) -> str:
    found, at = [], 0
    while at < len(text):
        letter, at = text[at], at + 1
        if letter == "*":
            found.append("[^/]*")
        elif letter == "?":
            found.append("[^/]")
        elif letter == "[" and (end := text.find("]", at + (2 if text[at : at + 1] == "!" else 1))) > 0:
            found.append(_class(text[at:end]))
            at = end + 1
        elif letter == "{" and (end := text.find("}", at)) > 0:
            found.append("(?:" + "|".join(_names(word) for word in text[at:end].split(",")) + ")")
            at = end + 1
        else:
            found.append(re.escape(letter))
    return "".join(found)


def _class(text: str) -> str:
    """`abc`, `a-z`, `!0-9` between brackets. A range that ends before it begins has nothing in it."""
    negated = text.startswith("!")
    inner, at, found = text[negated:], 0, ""
    while at < len(inner):
        if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner):
            first, last, at = inner[at], inner[at + 2], at + 3
            found += f"{re.escape(first)}-{re.escape(last)}" if first <= last else ""
        else:
            found, at = found + re.escape(inner[at]), at + 1
    if not found:
        return "[^/]" if negated else r"(?!)"
    return f"(?!/)[{'^' if negated else ''}{found}]"
