"""Every setting of Tidegate, each with its type, meaning and default.

A `Config` is a value: it is passed to the code that reads a setting, and changed by making another.

    Config().read_threads  # 0
    dataclasses.replace(Config(), read_threads=2)
    Config.meanings()      # {'read_threads': 'parts that …'}: printed by SHOW and the docs
    Config.scopes()        # {'read_threads': SettingScope.LIMIT, …}: who may change it
    Config(audit="0.5")    # a value is read as SET reads it
    Config(audit=7)        # BindError: audit cannot be 7

A setting whose annotation names no scope belongs to the database: a client that could
shorten everybody's leases could have files deleted that others read.
"""

import math
from dataclasses import dataclass, fields
from enum import Enum
from typing import Annotated, get_type_hints

from tidegate.errors import BindError
from tidegate.text import literal

_WORDS = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
_CHOICES = {"engine": ("auto", "embedded", "spark")}
"""Settings that are one of a few words."""
_SHARES = ("audit",)
"""Settings from 0 to 1; all other numbers are 0 or more."""


class SettingScope(Enum):
    """Who may change a setting, and for whom the change counts."""

    DATABASE = "database"
    """The owner of the database, for everybody. A session and a query are refused."""
    SESSION = "session"
    """Every session, for its own statements: SET in a session, OPTIONS of a query."""
    LIMIT = "limit"
    """As SESSION, but a session and its queries can only go below the database's value: it bounds memory or threads."""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings. The meaning of each is in its annotation, so that SHOW and the docs can print it.

    tidegate.open("lake", config=Config(part_bytes=64_000_000, audit=0.0))
    Config.meanings()["part_bytes"]          what SHOW ALL says of it
    """

    part_bytes: Annotated[
        int, "target size of a part in bytes; compaction merges parts of less than half of it"
    ] = 128 << 20
    inline_bytes: Annotated[
        int,
        "a commit of few rows, and at most so many bytes, stays in the log until small parts are merged; 0: each makes a file",
    ] = 16_384
    batch_rows: Annotated[int, "rows of a part that are in memory at once while it is read"] = 65_536
    # A retraction in memory is the key of its row. With more of them, sorted parts are merged instead.
    retractions_in_memory: Annotated[
        int,
        "maximum rows of parts with retractions whose keys are held in memory; above it, sorted parts are merged",
    ] = 1_000_000
    # About a second from files: every read of retractions that are not settled would spend more.
    retraction_lookup_bytes: Annotated[
        int,
        "maximum bytes of pages that an append reads to find the rows it retracts; above it, compaction finds them; 0: never",
    ] = 64 << 20
    delete_by_position: Annotated[
        bool,
        "DELETE, UPDATE and sources record which rows of which parts they delete; off: they append retractions of these rows",
        SettingScope.SESSION,
    ] = True
    history_ms: Annotated[
        int,
        "how long before the last change compaction keeps deleted rows for AS OF, without RETENTION; default: 7 days",
    ] = 604_800_000
    maintenance: Annotated[
        bool,
        "after a commit its writer merges small parts, a few at a time, and deletes files that were replaced long ago",
    ] = True
    maintenance_parts: Annotated[
        int, "small parts that are added to a collection, or replaced files, from which on a writer does so"
    ] = 128
    compact_fanout: Annotated[
        int, "number of neighbouring parts of similar size that compaction merges into one"
    ] = 8
    recluster_parts: Annotated[
        int,
        "number of full-size parts reclustered together; larger values make key filters read fewer parts and time filters more",
    ] = 16
    spark_compact_bytes: Annotated[
        int, "compaction of at least this many bytes runs on Spark if a session is active"
    ] = 4 << 30
    lease_ms: Annotated[
        int,
        "time until the lease of a reader that stopped renewing it expires; its parts may then be deleted",
    ] = 900_000
    sweep_grace_ms: Annotated[
        int, "age at which sweep deletes an object that nothing refers to; at least twice the longest write"
    ] = 3_600_000
    max_ahead_ms: Annotated[
        int, "maximum distance of a write or read time ahead of the clock; 0: no limit"
    ] = 600_000
    stats_collection: Annotated[bool, "collect statistics of parts when they are written"] = True
    stats_filter: Annotated[
        bool, "prune parts whose statistics prove that they hold no matching row", SettingScope.SESSION
    ] = True
    late_materialization: Annotated[
        bool,
        "read a part in stages: first the columns of the filter, then the needed pages of the others",
        SettingScope.SESSION,
    ] = True
    read_threads: Annotated[
        int, "parts that one query reads in parallel; 0: the number of cores", SettingScope.LIMIT
    ] = 0
    fast_path: Annotated[
        bool, "answer from metadata where possible, and LIMIT from few parts", SettingScope.SESSION
    ] = True
    audit: Annotated[
        float,
        "share of pruned parts, from 0 to 1, that is read anyway to verify that their statistics are right",
        SettingScope.SESSION,
    ] = 0.01
    max_result_bytes: Annotated[
        int,
        "maximum bytes of a result, or of rows gathered for one, in memory; streamed results have no limit",
        SettingScope.LIMIT,
    ] = 1 << 30
    peeks_at_once: Annotated[int, "fast-path reads that run at the same time; further ones wait"] = 16
    statement_timeout_ms: Annotated[int, "maximum duration of a query; 0: no limit", SettingScope.SESSION] = 0
    engine: Annotated[
        str,
        "what runs queries of several collections: auto, embedded (in this process) or spark",
        SettingScope.SESSION,
    ] = "auto"
    embedded_bytes: Annotated[
        int,
        "bytes of parts left after pruning up to which such queries run in this process, with engine = auto",
        SettingScope.LIMIT,
    ] = 2 << 30
    recursion_rows: Annotated[
        int,
        "rows that WITH RECURSIVE may add before it fails, as one without an end must",
        SettingScope.LIMIT,
    ] = 10_000_000
    embedded_memory: Annotated[
        int,
        "memory of one such query in this process, beyond which it writes to disk; 0: a quarter of the machine's",
        SettingScope.LIMIT,
    ] = 0
    join_reduction: Annotated[
        bool,
        "use the keys of the small side of a join to prune parts of the other side",
        SettingScope.SESSION,
    ] = True
    stats_budget: Annotated[
        int, "maximum bytes of statistics per part, not counting columns marked KEEP STATISTICS"
    ] = 1024
    ingest_batch_rows: Annotated[
        int, "maximum records in one batch of a source, unless its WITH options set another limit"
    ] = 20_000_000
    ingest_batch_bytes: Annotated[
        int, "maximum bytes in one batch of a source, unless its WITH options set another limit"
    ] = 4 << 30
    ingest_record_bytes: Annotated[
        int, "maximum bytes of a record; a larger one is not decoded, and goes to the errors of its source"
    ] = 64 << 20
    ingest_block_bytes: Annotated[
        int, "maximum uncompressed bytes of a block of an Avro file or a page of a Parquet file"
    ] = 128 << 20
    ingest_poll_ms: Annotated[int, "pause between polls of a source that has nothing new"] = 500
    ingest_merge_batches: Annotated[
        int,
        "batches after which a source that runs on merges the small parts that it has written; 0: it never does",
    ] = 8
    ingest_retry_ms: Annotated[
        int, "longest pause between attempts to reach a source that does not answer"
    ] = 30_000
    as_of_timeout_ms: Annotated[
        int,
        "how long a read AS OF a time in the future waits until that time is complete",
        SettingScope.SESSION,
    ] = 30_000

    def __post_init__(self) -> None:
        """Reads each value as SET does; raises a BindError if one cannot be the setting's."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is setting.default:
                continue
            wanted = _as(type(setting.default), value)
            known = setting.name not in _CHOICES or wanted in _CHOICES[setting.name]
            number = isinstance(wanted, str) or (wanted is not None and wanted >= 0)
            if not known or not number or (setting.name in _SHARES and float(wanted) > 1):  # type: ignore[arg-type]  # a share is a number
                meaning = self.meanings()[setting.name]
                raise BindError(
                    f"{setting.name} cannot be {literal(value)}",
                    hint=f"{meaning}: such as {spelled(setting.default)}",
                )
            object.__setattr__(self, setting.name, wanted)

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """The meaning of each setting, by name, in the order of declaration."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: hint.__metadata__[0] for name, hint in hints.items()}

    @classmethod
    def scopes(cls) -> dict[str, SettingScope]:
        """Who may change each setting, by name."""
        hints = get_type_hints(cls, include_extras=True)
        return {
            name: next(
                (mark for mark in hint.__metadata__ if isinstance(mark, SettingScope)), SettingScope.DATABASE
            )
            for name, hint in hints.items()
        }

    @classmethod
    def choices(cls, name: str) -> tuple[str, ...]:
        """The words that a setting can be, such as `on` and `off`; nothing for numbers."""
        return ("on", "off") if isinstance(getattr(cls(), name), bool) else _CHOICES.get(name, ())


def spelled(value: object) -> str:
    """A value as SHOW prints it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _as(kind: type, value: object) -> bool | int | float | str | None:
    """The value as one of the knob's type; None if it cannot be."""
    if kind is str:
        return value.lower() if isinstance(value, str) else None
    if kind is bool:
        if isinstance(value, bool):
            return value
        return _WORDS.get(
            str(value).lower(), {1: True, 0: False}.get(value) if isinstance(value, int) else None
        )
    if isinstance(value, bool):
        return None
    if kind is int and type(value) is int:
        return value  # a float would round it above 2^53
    try:
        number = float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None
    if number is not None and not math.isfinite(number):
        return None
    if kind is float or number is None:
        return number
    return int(number) if math.isfinite(number) and number == int(number) else None


MAX_NESTING = 400
"""The maximum nesting of SQL and JSON; deeper text is a LimitError, or an error of the row.

It is no setting. Well below Python's own limit of 1,000 frames it is we who refuse, with a message that says where: more
would not be safe. With less, a view or a stored plan that one process accepted could not be read by another.
"""
