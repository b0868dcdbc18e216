"""The public names, pinned: adding or removing one is a decision, and shows up here."""

import subprocess
import sys
from types import ModuleType

import pytest

import tidegate

PUBLIC = [
    "BindError",
    "EvaluationError",
    "LimitError",
    "ParseError",
    "PlanError",
    "Position",
    "SqlError",
    "TidegateError",
    "TypeMismatch",
    "UnsupportedError",
    "__version__",
]


def test_all_is_what_is_promised() -> None:
    assert sorted(tidegate.__all__) == PUBLIC


def test_nothing_else_leaks() -> None:
    names = {n for n, v in vars(tidegate).items() if not n.startswith("_") and not isinstance(v, ModuleType)}
    assert names == {n for n in PUBLIC if not n.startswith("_")}


@pytest.mark.parametrize("heavy", ["pyspark", "duckdb", "obstore"])
def test_import_is_cheap(heavy: str) -> None:
    code = f"import sys, tidegate; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, f"imports {heavy}"
