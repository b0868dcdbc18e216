"""Golden files: what the code says today, in the domain's words, one block a case.

    # Thirty days from creation, one part too old.
    prune now=2024-03-01
    created_at + '30 days' > mz_now()
    ----
    NONE p1
    SOME p2

A block is: comment lines (`#`), a directive with optional arguments, input lines, `----`, output lines. A
blank line ends the output (so no line of an output is blank), and parts the blocks; the input may hold blank
lines. `make golden` writes the outputs anew; the diff is then for a person to read.

A directive is a function from (arguments, input lines) to the output, in any module of
`tests/golden/directives`:

    @directive("echo")
    def echo(args: str, lines: list[str]) -> str: ...

A `TidegateError` that it raises becomes the output `error: …`, so that messages are pinned like everything
else.
"""

import importlib
import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate import TidegateError

HERE = Path(__file__).parent
Directive = Callable[[str, list[str]], str]
DIRECTIVES: dict[str, Directive] = {}


def directive(name: str) -> Callable[[Directive], Directive]:
    """Registers a directive."""

    def register(function: Directive) -> Directive:
        assert DIRECTIVES.setdefault(name, function) is function, f"two directives are called {name}"
        return function

    return register


@dataclass(frozen=True)
class Block:
    """One case; `line` is where its directive stands, `output` the half-open range of its output lines."""

    line: int
    name: str
    args: str
    input: list[str]
    expected: str
    output: tuple[int, int]

    def actual(self) -> str:
        """What the directive says now."""
        if self.name not in DIRECTIVES:
            raise KeyError(f"no directive {self.name!r}; there are {', '.join(sorted(DIRECTIVES))}")
        try:
            text = DIRECTIVES[self.name](self.args, self.input)
        except TidegateError as error:
            text = f"error: {error}"
        lines = [line.rstrip() for line in text.rstrip().split("\n")] if text.strip() else []
        assert all(lines), f"an output has a blank line, which would end it:\n{text}"
        return "\n".join(lines)


def parse(text: str) -> list[Block]:
    """The blocks of a file."""
    lines, blocks, at = text.split("\n"), [], 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        if "----" not in lines[at:]:
            raise ValueError(f"line {at + 1}: a directive without ----")
        bar = lines.index("----", at)
        end = next(i for i in range(bar + 1, len(lines) + 1) if i == len(lines) or not lines[i].strip())
        name, _, args = lines[at].strip().partition(" ")
        expected = "\n".join(line.rstrip() for line in lines[bar + 1 : end])
        blocks.append(Block(at + 1, name, args.strip(), lines[at + 1 : bar], expected, (bar + 1, end)))
        at = end
    return blocks


def rewrite(text: str) -> str:
    """The file with every output as it is now."""
    lines = text.rstrip("\n").split("\n")
    for block in reversed(parse("\n".join(lines))):  # from the last, so that the ranges before it stay true
        now = block.actual()
        lines[slice(*block.output)] = now.split("\n") if now else []
    return "\n".join(lines) + "\n"


def files() -> list[Path]:
    """The golden files, with all directives loaded; rewritten first if UPDATE_GOLDEN is set."""
    for module in pkgutil.iter_modules([str(HERE / "directives")]):
        importlib.import_module(f"tests.golden.directives.{module.name}")
    found = sorted(HERE.glob("*.txt"))
    if os.environ.get("UPDATE_GOLDEN"):
        assert "PYTEST_XDIST_WORKER" not in os.environ, (
            "several workers would write the same files: use make golden"
        )
        for path in found:
            path.write_text(rewrite(path.read_text("utf-8")), "utf-8")
    return found
