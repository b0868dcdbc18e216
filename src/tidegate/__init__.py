"""Time-varying collections stored as Parquet parts, of which queries read only what can matter.

    import tidegate
    db = tidegate.open("lake")
    db.sql("CREATE TABLE t (id int8, at timestamptz, payload jsonb)")

This module holds every public name; all other modules may change.

| names | what they are |
|---|---|
| `open`, `adopt` | open a database; say what became of one that was moved or copied |
| `Database`, `Session` | what `open` and `db.session()` return |
| `Result`, `ScanMetrics`, `Interval`, `Watch` | a result, `r.scan`, a value of type interval, a handle that cancels queries |
| `Config`, `Clock`, `SystemClock`, `ManualClock`, `Reach` | what a database or session is opened with |
| `Status`, `CollectionStatus`, `SourceStatus` | what `db.status()` returns |
| `Ingestion`, `IngestionGroup`, `IngestionProgress` | what `db.ingest()` returns, and its progress |
| `Compacted`, `Reclustered`, `Learnt`, `Swept`, `Repaired`, `Progress` | what maintenance returns and reports |
| `Diagnosis`, `Finding`, `Severity` | what `db.doctor()` returns |
| `Maps`, `PartMap`, `QueryMap` | what `db.maps` gives: which parts exist, and which a query would read |
| `TidegateError` and its subclasses, `ErrorCode`, `Position` | errors, drawn as a tree in `tidegate/errors.py` |

Importing it is cheap: pyarrow, pyspark, duckdb and obstore are imported when something first needs them.
"""

import os as _os
import typing as _t

from tidegate.clock import Clock, ManualClock, SystemClock
from tidegate.config import Config
from tidegate.errors import (
    AuditError,
    BindError,
    CancelledError,
    ConflictError,
    CorruptError,
    ErrorCode,
    EvaluationError,
    IndeterminateError,
    InternalError,
    LeaseLost,
    LimitError,
    MissingObject,
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
    from tidegate.access import Reach
    from tidegate.database import Database
    from tidegate.doctor import Diagnosis, Finding, Severity
    from tidegate.ingest.runtime import Ingestion, IngestionGroup, IngestionProgress, SourceStatus
    from tidegate.progress import Progress
    from tidegate.query import CancelToken as Watch
    from tidegate.query import Interval, Result, ScanMetrics
    from tidegate.session import Session
    from tidegate.statements import CollectionStatus, Status
    from tidegate.statements.preview import Maps, PartMap, QueryMap
    from tidegate.storage.maintain import Compacted, Learnt, Reclustered, Repaired, Swept

__version__ = "0.1.0"

__all__ = [
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

_LAZY = {
    "CollectionStatus": ("tidegate.statements", "CollectionStatus"),
    "Compacted": ("tidegate.storage.maintain", "Compacted"),
    "Database": ("tidegate.database", "Database"),
    "Diagnosis": ("tidegate.doctor", "Diagnosis"),
    "Finding": ("tidegate.doctor", "Finding"),
    "Ingestion": ("tidegate.ingest.runtime", "Ingestion"),
    "IngestionGroup": ("tidegate.ingest.runtime", "IngestionGroup"),
    "IngestionProgress": ("tidegate.ingest.runtime", "IngestionProgress"),
    "Interval": ("tidegate.query", "Interval"),
    "Learnt": ("tidegate.storage.maintain", "Learnt"),
    "Maps": ("tidegate.statements.preview", "Maps"),
    "PartMap": ("tidegate.statements.preview", "PartMap"),
    "Progress": ("tidegate.progress", "Progress"),
    "QueryMap": ("tidegate.statements.preview", "QueryMap"),
    "Reach": ("tidegate.access", "Reach"),
    "Reclustered": ("tidegate.storage.maintain", "Reclustered"),
    "Repaired": ("tidegate.storage.maintain", "Repaired"),
    "Result": ("tidegate.query", "Result"),
    "ScanMetrics": ("tidegate.query", "ScanMetrics"),
    "Session": ("tidegate.session", "Session"),
    "Severity": ("tidegate.doctor", "Severity"),
    "SourceStatus": ("tidegate.ingest.runtime", "SourceStatus"),
    "Status": ("tidegate.statements", "Status"),
    "Swept": ("tidegate.storage.maintain", "Swept"),
    "Watch": ("tidegate.query", "CancelToken"),
}


def open(  # noqa: A001  # tidegate.open is the contract
    url: str | _os.PathLike[str] | None = None,
    *,
    clock: Clock | None = None,
    config: Config | None = None,
    config_file: str | _os.PathLike[str] | None = None,
) -> "Database":
    """Opens the database at a path or URL, and creates it if there is none.

        tidegate.open("lake", config=Config(part_bytes=1_000_000))
        tidegate.open(config_file="tidegate.toml")        the lake and the settings of a file; see `tidegate init`

    No file is read unless it is given. With one, settings in the environment (TIDEGATE_PART_BYTES) count before it, and `url` and
    TIDEGATE_LAKE before its lake.

    `lake` is a folder with its metadata in SQLite; `s3://bucket/lake` a bucket with its metadata beside; both with
    `?metadata=postgresql://…` have it in PostgreSQL; `memory://` lives as long as the process. See
    `tidegate/storage/location.py`. `config` has the settings to start with, `clock` the time, for tests.
    """
    from tidegate.database import Database

    if config_file is not None:
        from tidegate.config_file import open_options

        url, config = open_options(url, config, config_file)
    if url is None:
        raise TypeMismatch("tidegate.open needs a location", hint='tidegate.open("lake"), or config_file=')
    return Database.open(url, clock=clock, config=config)


def adopt(url: str | _os.PathLike[str], how: _t.Literal["moved", "alias", "copy"]) -> None:
    """Declares a lake with metadata in PostgreSQL moved, aliased or copied, so that it opens here.

    `moved`: it is here now, and refused where it was. `alias`: this is another name of the same place. `copy`: it is a copy, and
    becomes a lake of its own with its own metadata. See `tidegate/storage/catalog/adopt.py`.
    """
    from tidegate.clock import SystemClock
    from tidegate.storage import parse_location
    from tidegate.storage.catalog import adopt_lake as adopt_place

    adopt_place(parse_location(url), SystemClock(), how)


def __getattr__(name: str) -> _t.Any:
    if name in _LAZY:
        from importlib import import_module

        module, attribute = _LAZY[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
