"""Tidegate keeps time-varying collections as Parquet parts, and reads only what can matter.

    import tidegate
    db = tidegate.open("lake")
    db.sql("CREATE TABLE t (id int8, at timestamptz, payload jsonb)")

This module holds every public name; all other modules may change. Importing it is cheap: pyarrow, pyspark, duckdb and
obstore are imported when something first needs them.
"""

import os as _os
import typing as _t

from tidegate.errors import (
    BindError,
    CancelledError,
    ConflictError,
    CorruptError,
    EvaluationError,
    IndeterminateError,
    InternalError,
    LimitError,
    ParseError,
    PlanError,
    Position,
    ReadOnlyError,
    SettingError,
    SourceError,
    SqlError,
    StoreError,
    TidegateError,
    TimeError,
    TypeMismatch,
    UnsupportedError,
)

if _t.TYPE_CHECKING:
    from tidegate.database import Database
    from tidegate.scan.result import Result
    from tidegate.scan.values import Interval
    from tidegate.scan.watch import Watch

__version__ = "0.1.0"

__all__ = [
    "BindError",
    "CancelledError",
    "ConflictError",
    "CorruptError",
    "Database",
    "EvaluationError",
    "IndeterminateError",
    "InternalError",
    "Interval",
    "LimitError",
    "ParseError",
    "PlanError",
    "Position",
    "ReadOnlyError",
    "Result",
    "SettingError",
    "SourceError",
    "SqlError",
    "StoreError",
    "TidegateError",
    "TimeError",
    "TypeMismatch",
    "UnsupportedError",
    "Watch",
    "__version__",
    "adopt",
    "open",
]

_LAZY = {
    "Database": "tidegate.database",
    "Interval": "tidegate.scan.values",
    "Result": "tidegate.scan.result",
    "Watch": "tidegate.scan.watch",
}


def open(url: str | _os.PathLike[str], **options: _t.Any) -> "Database":  # noqa: A001  # tidegate.open is the contract
    """Opens the database at a path or URL, and makes it if there is none.

    `lake` is a folder with its metadata in SQLite; `s3://bucket/lake` a bucket with its metadata beside; both with
    `?metadata=postgresql://…` have it in PostgreSQL; `memory://` is gone with the process. See `tidegate/store/place.py`.
    """
    from tidegate.database import Database

    return Database.open(url, **options)


def adopt(url: str | _os.PathLike[str], how: _t.Literal["moved", "alias", "copy"]) -> None:
    """Says what became of a lake with metadata in PostgreSQL that is not where it was; then it can be opened here.

    `moved`: it is here now, and refused where it was. `alias`: this is another name of the same place. `copy`: it is a copy, and
    becomes a lake of its own with its own metadata. See `tidegate/shard/adopt.py`.
    """
    from tidegate.clock import SystemClock
    from tidegate.shard.adopt import adopt as adopt_place
    from tidegate.store.place import parse

    adopt_place(parse(url), SystemClock(), how)


def __getattr__(name: str) -> _t.Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
