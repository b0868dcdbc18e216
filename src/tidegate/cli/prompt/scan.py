r"""Divides what is typed at the prompt: statements, and a backslash command at the end.

divide("SELECT 1 \\watch 2")     Typed(sql="SELECT 1", command="watch", rest="2")
divide("SELECT '\\d'")           Typed(sql="SELECT '\\d'"): a backslash in a string is none
is_complete("SELECT ';'")        False: no semicolon ends it
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS = frozenset({"exit", "quit", "help"})
"""What people type to leave or for help, without a backslash."""
_SKIPPED = re.compile(
    r"""'(?:[^']|'')*(?:'|\Z)|"(?:[^"]|"")*(?:"|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|(\$\w*\$).*?(?:\1|\Z)""",
    re.DOTALL,
)
_OPEN = re.compile(r"""'(?:[^']|'')*\Z|"(?:[^"]|"")*\Z|--[^\n]*\Z|/\*(?:(?!\*/).)*\Z""", re.DOTALL)


@dataclass(frozen=True)
class Typed:
    """SQL, and the command that follows it; either may be empty."""

    sql: str
    command: str = ""
    rest: str = ""


def divide(text: str) -> Typed:
    """What was typed, divided at the first backslash that is in no string, quoted name or comment."""
    word = text.strip().rstrip(";").strip().lower()
    if word in WORDS:
        return Typed("", {"help": "?"}.get(word, "q"))
    at = _backslash(text)
    if at is None:
        return Typed(text.strip())
    command, _, rest = text[at + 1 :].strip().partition(" ")
    return Typed(text[:at].strip(), command.rstrip(";") or "\\", rest.strip())


def is_complete(text: str) -> bool:
    """Whether Enter runs the input: a command, or statements that end with a semicolon."""
    stripped = text.strip()
    if not stripped or stripped.rstrip(";").lower() in WORDS or _backslash(text) is not None:
        return True
    if stripped.endswith(";;"):
        return True  # an open string would go on for ever: two semicolons end it anyway
    return without_strings(text).rstrip().endswith(";")


def without_strings(text: str) -> str:
    """The text with blanks for strings, quoted names and comments; all places stay."""
    return _SKIPPED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def in_string(text: str) -> bool:
    """Whether the end of the text is inside of a string, a quoted name or a comment."""
    at = 0
    while (found := _SKIPPED.search(text, at)) is not None:
        if found.end() == len(text):
            piece = found[0]
            closed = len(piece) > 1 and (
                (piece[0] in "'\"" and _OPEN.fullmatch(piece) is None)
                or (piece.startswith("/*") and piece.endswith("*/") and len(piece) > 3)
                or (piece.startswith("$") and piece.count("$") >= 4)  # two marks of two signs
            )
            return not closed
        at = found.end()
    return False


def _backslash(text: str) -> int | None:
    at = without_strings(text).find("\\")
    return None if at < 0 else at
