"""The public names, pinned: adding or removing one is a decision, and shows up here."""

import inspect
import re
import subprocess
import sys
from types import ModuleType

import pytest

import tidegate

PUBLIC = [
    "AuditError",
    "BindError",
    "CancelledError",
    "Clock",
    "CollectionStatus",
    "Compacted",
    "Config",
    "ConflictError",
    "CorruptError",
    "Database",
    "Diagnosis",
    "ErrorCode",
    "EvaluationError",
    "Finding",
    "IndeterminateError",
    "Ingestion",
    "IngestionGroup",
    "IngestionProgress",
    "InternalError",
    "Interval",
    "Learnt",
    "LeaseLost",
    "LimitError",
    "ManualClock",
    "Maps",
    "MissingObject",
    "ParseError",
    "PartMap",
    "PlanError",
    "Position",
    "Progress",
    "QueryMap",
    "Reach",
    "ReadOnlyError",
    "Reclustered",
    "Repaired",
    "Result",
    "ScanMetrics",
    "Session",
    "SettingError",
    "Severity",
    "SourceError",
    "SourceStatus",
    "SqlError",
    "Status",
    "StoreError",
    "Swept",
    "SystemClock",
    "TidegateError",
    "TimeError",
    "TypeMismatch",
    "UnsupportedError",
    "Watch",
    "__version__",
    "adopt",
    "open",
]
LAZY = {
    "CollectionStatus",
    "Compacted",
    "Database",
    "Diagnosis",
    "Finding",
    "Ingestion",
    "IngestionGroup",
    "IngestionProgress",
    "Interval",
    "Learnt",
    "Maps",
    "PartMap",
    "Progress",
    "QueryMap",
    "Reach",
    "Reclustered",
    "Repaired",
    "Result",
    "ScanMetrics",
    "Session",
    "Severity",
    "SourceStatus",
    "Status",
    "Swept",
    "Watch",
}
"""Imported when they are first asked for."""


def test_all_is_what_is_promised() -> None:
    assert sorted(tidegate.__all__) == PUBLIC
    assert all(hasattr(tidegate, name) for name in PUBLIC)
    assert not hasattr(tidegate, "nonsense")


def test_nothing_else_leaks() -> None:
    named = {
        n: v for n, v in vars(tidegate).items() if not n.startswith("_") and not isinstance(v, ModuleType)
    }
    assert set(named) == {n for n in PUBLIC if not n.startswith("_")} - LAZY


@pytest.mark.parametrize(
    "heavy", ["pyspark", "polars", "duckdb", "obstore", "pyarrow", "numpy", "psycopg", "prometheus_client"]
)
def test_import_is_cheap(heavy: str) -> None:
    code = f"import sys, tidegate; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, f"imports {heavy}"


EXAMPLE = r"(?m)^ *[a-z_]\w*( = |\.\w+[(.]).*[()]|^ *with |^ {4}\S|`[^`]*[(.=][^`]*`"


@pytest.mark.parametrize("name", [name for name in PUBLIC if not name.startswith("_")])
def test_every_public_name_has_an_example(name: str) -> None:
    said = inspect.cleandoc(getattr(tidegate, name).__doc__ or "")
    assert re.search(EXAMPLE, said), f"{name}: {said}"


@pytest.mark.parametrize("name", [name for name in vars(tidegate.Session) if not name.startswith("_")])
def test_every_method_of_a_database_has_an_example(name: str) -> None:
    if name not in {"context", "close"}:
        said = inspect.cleandoc(getattr(tidegate.Session, name).__doc__ or "")
        assert re.search(r"db\.\w+", said), f"{name}: {said}"
