r"""Patterns of FILES: which names match, and which folders have to be listed.

    pattern                      matches
    /in/day-1.json               that file
    /in/*.json                   in that folder; `*` and `?` never match a slash
    /in/20[0-9][0-9]/x[!a].csv   one of these characters; none of these
    /in/{json,csv}/*             one of these words
    /in/**/*.json                in that folder, or any number of folders below it
    /in/, /in/**                 every file below it

Writers use hidden names for unfinished files. So names that begin with a dot, `_temporary` folders, `_SUCCESS` marks and names that
end with `.tmp`, `._COPYING_` or `.inprogress` are skipped, unless the pattern spells them out (`/in/.cache/*`, `/in/*.tmp`).

>>> pattern = Pattern.of("/in/**/*.json")
>>> pattern.folder, pattern.matches("/in/a/b.json"), pattern.matches("/in/a/.b.json"), pattern.matches("/in/b.csv")
('/in', True, False, False)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_SHOWN = r"(?!\.|_temporary(?:/|\Z)|_SUCCESS(?:/|\Z)|[^/]*\.(?:tmp|_COPYING_|inprogress)(?:/|\Z))"
"""A lookahead in front of a name that excludes the names to skip."""
_ANY = "**"
_WILD = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class Pattern:
    """A pattern, split at its slashes; the first segment is empty, as a pattern begins with a slash."""

    segments: tuple[str, ...]

    @staticmethod
    def of(text: str) -> Pattern:
        """Parses a pattern, which begins with a slash. A folder matches all files below it."""
        names = [name for i, name in enumerate(text.split("/")) if name or not i]
        if text.endswith("/"):
            names.append(_ANY)
        if names[-1] == _ANY:
            names.append("*")
        return Pattern(tuple(names))

    @cached_property
    def fixed(self) -> int:
        """The number of leading segments without wildcards; the last segment is never counted."""
        wild = (i for i, segment in enumerate(self.segments) if _WILD.search(segment))
        return min(next(wild, len(self.segments)), len(self.segments) - 1)

    @property
    def folder(self) -> str:
        """The folder that contains all matches."""
        return "/".join(self.segments[: self.fixed])

    @cached_property
    def deep(self) -> int | None:
        """The index of the first `**` segment."""
        return next((i for i, segment in enumerate(self.segments) if segment == _ANY), None)

    def matches(self, path: str) -> bool:
        """Whether an absolute path matches."""
        return self._whole.match(path) is not None

    def descends(self, segment: int, name: str) -> bool:
        """Whether a folder of that name matches a segment; for `**`, that segment or any later one."""
        last = len(self._segment_regexes) - 1 if self.segments[segment] == _ANY else segment + 1
        return any(regex.match(name) is not None for regex in self._segment_regexes[segment:last])

    @cached_property
    def _segment_regexes(self) -> list[re.Pattern[str]]:
        return [
            re.compile(_SHOWN if segment == _ANY else _regex(segment) + r"\Z") for segment in self.segments
        ]

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        *folders, last = self.segments
        text = "".join(
            f"(?:{_SHOWN}[^/]+/)*" if segment == _ANY else _regex(segment) + "/" for segment in folders
        )
        return re.compile(text + _regex(last) + r"\Z")


def _regex(segment: str) -> str:
    """The regular expression of a segment; it skips hidden names unless the segment spells one."""
    shown = _SHOWN if _WILD.search(segment) and re.match(_SHOWN, segment) else ""
    return shown + _names(segment)


def _names(text: str) -> str:
    parts, at = [], 0
    while at < len(text):
        letter, at = text[at], at + 1
        if letter == "*":
            parts.append("[^/]*")
        elif letter == "?":
            parts.append("[^/]")
        elif letter == "[" and (end := text.find("]", at + (2 if text[at : at + 1] == "!" else 1))) > 0:
            parts.append(_class(text[at:end]))
            at = end + 1
        elif letter == "{" and (end := text.find("}", at)) > 0:
            parts.append("(?:" + "|".join(_names(word) for word in text[at:end].split(",")) + ")")
            at = end + 1
        else:
            parts.append(re.escape(letter))
    return "".join(parts)


def _class(text: str) -> str:
    """The class for `abc`, `a-z` or `!0-9` in brackets. A range that ends before it begins is empty."""
    negated = text.startswith("!")
    inner, at, ranges = text[negated:], 0, ""
    while at < len(inner):
        if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner):
            first, last, at = inner[at], inner[at + 2], at + 3
            ranges += f"{re.escape(first)}-{re.escape(last)}" if first <= last else ""
        else:
            ranges, at = ranges + re.escape(inner[at]), at + 1
    if not ranges:
        return "[^/]" if negated else r"(?!)"
    return f"(?!/)[{'^' if negated else ''}{ranges}]"
