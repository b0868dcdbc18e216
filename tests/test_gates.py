"""Gates that no tool has: sizes, and suppressions that name their reason."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    p for room in ("src", "bench", "tests", "examples", "docs") for p in (ROOT / room).rglob("*.py")
)
FILE_LINES, FUNCTION_LINES = 400, 40
# A suppression is followed by a second comment, as the one of TypeMismatch in tidegate/errors.py.
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|mypy:|pragma)")
REASONED = re.compile(r"#\s*(noqa: |type: ignore\[|mypy: |pragma: )[^#]*#\s*\w+")


def functions_too_long(tree: ast.AST) -> Iterator[str]:
    """Counts from `def` to the last line, without the docstring: an explanation is never too long."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                size -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            if size > FUNCTION_LINES:
                yield f"{node.name} (line {node.lineno}) has {size} lines"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_source_file(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") <= FILE_LINES
    assert list(functions_too_long(ast.parse(text))) == []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and SUPPRESSION.match(token.string):
            assert REASONED.match(token.string), f"line {token.start[0]}: a suppression names its reason"


def test_constraints_are_pins() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.]+", line)] == []


def test_every_room_is_a_package() -> None:
    """A folder without `__init__.py` can be imported, but import-linter does not look into it."""
    rooms = {path.parent for path in (ROOT / "src" / "tidegate").rglob("*.py")}
    assert [str(room) for room in sorted(rooms) if not (room / "__init__.py").exists()] == []
