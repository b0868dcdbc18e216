"""The fenced blocks of a page, and what their first line says is to be done with them.

| fence | is |
|---|---|
| `python` | run; all of a page in one namespace. `f(x)  # → 5` at the end of a statement: it prints 5 |
| `sql` | run in the database `db` of that namespace, or in the folder `lake`; each result is printed |
| `sql postgres` | run by the PostgreSQL of the tests |
| `console` | lines with `$ ` are commands, what follows is what they print |
| `sh` | commands, a line each |
| `text` | what the block above prints; `…` stands for anything, a line of it alone for any lines |
| `text drawing` | a picture, a format: nothing that runs |
| … `no-run: reason` | not run, for one of the reasons of `NO_RUN`; Python is compiled and SQL parsed all the same |

A page can prepare what its blocks use in a comment that no reader sees:

    <!-- python
    (code that is run here)
    -->
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

NO_RUN = {
    "needs a cluster",  # of Spark, of several machines
    "needs PostgreSQL",  # as a store of metadata
    "needs a bucket",  # in somebody's account
    "installs",  # changes the machine
    "a sketch",  # shows a shape, with … in it
    "another database",  # SQL of Materialize
}
LANGUAGES = {"python", "sql", "console", "sh", "text"}
FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ ]*$"
    r"|^<!-- (?P<hidden>python|sql postgres)\n(?P<code>.*?)^-->",
    re.MULTILINE | re.DOTALL,
)


class WrongBlock(Exception):  # noqa: N818  # reads as what it is
    """A fence that says nothing, or something that is not known."""


@dataclass(frozen=True)
class Block:
    """One of them."""

    page: str
    line: int
    language: str
    word: str
    """`postgres`, `drawing`, or nothing."""
    why_not: str | None
    """Why it is not run."""
    text: str
    hidden: bool = False

    @property
    def at(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"


def blocks(path: Path, shown: str) -> list[Block]:
    """All of a page, in order."""
    text = path.read_text("utf-8")
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        hidden = match["hidden"] is not None
        info, body = (match["hidden"], match["code"]) if hidden else (match["info"], match["body"])
        found.append(_block(f"{shown}", line, info.strip(), body, hidden=hidden))
    return found


def _block(page: str, line: int, info: str, text: str, *, hidden: bool) -> Block:
    said, _, why = info.partition("no-run:")
    language, _, word = said.strip().partition(" ")
    reason = why.strip() or None
    at = f"{page}:{line}"
    if language not in LANGUAGES:
        raise WrongBlock(f"{at}: a fence says one of {', '.join(sorted(LANGUAGES))}, and not {info!r}")
    if word not in {"", "postgres", "drawing"}:
        raise WrongBlock(f"{at}: {word!r} is not known")
    if reason is not None and reason not in NO_RUN:
        raise WrongBlock(f"{at}: {reason!r} is no reason: {', '.join(sorted(NO_RUN))}")
    return Block(page, line, language, word, reason, text, hidden)


def fits(shown: str, printed: str) -> bool:
    """Whether what was printed is what the page shows."""
    pattern = ""
    for line in shown.strip("\n").split("\n"):
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.rstrip().split("…"))) + r"[ ]*\n"
    given = "".join(line.rstrip() + "\n" for line in printed.strip("\n").split("\n"))
    return re.fullmatch(pattern, given) is not None
