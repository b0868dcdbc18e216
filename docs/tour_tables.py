"""Fills the tables of docs/tour.md with the first lines of the docstrings of rooms and modules.

    <!-- table: rooms -->                       one row a room, from its `__init__.py`
    <!-- table: query.choose query.prune -->    one row a module or package, in this order
    <!-- /table -->

`make docs` rewrites the page; `tests/test_docs.py` fails if it is out of date or names a module that does not exist.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tour.md"
ROOMS = (
    "expr", "plan", "storage", "query", "sql", "config_file", "ingest", "statements", "spark", "doctor", "server", "cli",
)  # fmt: skip
TABLE = re.compile(r"(<!-- table: ([\w. \n]+?) -->\n).*?(<!-- /table -->)", re.DOTALL)


def page() -> str:
    """The page with every table filled."""
    return TABLE.sub(
        lambda found: f"{found[1]}\n{table(found[2].split())}\n{found[3]}", PAGE.read_text("utf-8")
    )


def table(names: list[str]) -> str:
    """A table of modules: a link to the file, and what its docstring says first."""
    rows = (row(name) for name in (ROOMS if names == ["rooms"] else names))
    return "| where | what it does |\n|---|---|\n" + "".join(rows)


def row(name: str) -> str:
    """One module or package, below `tidegate`."""
    base = ROOT / "src" / "tidegate" / name.replace(".", "/")
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    summary = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]
    link = path.parent if base.is_dir() else path
    label = name.replace(".", "/") + ("/" if base.is_dir() else ".py")
    return f"| [`{label}`](../{link.relative_to(ROOT)}) | {summary.replace('|', chr(92) + '|')} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
