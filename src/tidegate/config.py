"""Every knob of Tidegate, each on one line with its type, meaning and default.

A `Config` is a value: it is handed down to whoever needs a knob, and changed by making another.

    Config().max_nesting   # 400
    dataclasses.replace(Config(), max_nesting=50)
    Config.meanings()      # {'max_nesting': 'levels of …'}: what SHOW and the docs print
    Config.scopes()        # {'max_nesting': Scope.DATABASE, …}: who may change it

A knob is here when code reads it, and not before. One whose annotation names no scope is of the database: a client that could
shorten everybody's leases could have files deleted that others read.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, get_type_hints


class Scope(Enum):
    """Who may change a knob, and for whom the change counts."""

    DATABASE = "database"
    """Whoever opened the database, for everybody. A session and a query are refused."""
    SESSION = "session"
    """Everybody, for their own statements: SET in a session, OPTIONS of a query."""
    LIMIT = "limit"
    """As SESSION, but a session and its queries can only go below the database's value: it bounds memory or threads."""


@dataclass(frozen=True, slots=True)
class Config:
    """The knobs. The meaning of each stands in its annotation, so that SHOW and the docs can print it."""

    # Well below Python's own limit of 1,000 frames: it is we who refuse, with a message that says where.
    max_nesting: Annotated[int, "levels of nested SQL or JSON beyond which a LimitError is raised"] = 400
    part_bytes: Annotated[int, "size that parts aim at; parts of less than half are merged by compaction"] = (
        128 << 20
    )
    batch_rows: Annotated[int, "rows of a part that are in memory at once while it is read"] = 65_536
    # A retraction in memory is the key of its row. With more of them, sorted parts are merged instead.
    retractions_in_memory: Annotated[
        int, "rows of parts with retractions up to which their keys are kept in memory"
    ] = 1_000_000
    compact_fanout: Annotated[
        int, "neighbouring parts of about the same size that compaction merges into one"
    ] = 8
    recluster_parts: Annotated[
        int,
        "parts of full size among which recluster sorts rows by key; more: fewer parts for a key, more for a time",
    ] = 16
    spark_compact_bytes: Annotated[
        int, "bytes to be merged from which on compaction runs on Spark, if a session is active"
    ] = 4 << 30
    lease_ms: Annotated[
        int, "how long a reader that is no longer heard of keeps what it reads from being deleted"
    ] = 900_000
    sweep_grace_ms: Annotated[
        int, "how long an object that nothing refers to is kept; twice the longest write"
    ] = 3_600_000
    max_ahead_ms: Annotated[
        int, "how far ahead of the clock a time may be that rows are written or read at; 0: any time"
    ] = 600_000
    stats_collection: Annotated[bool, "whether statistics of parts are collected as they are written"] = True
    stats_filter: Annotated[
        bool, "whether parts are left out that their statistics prove to hold nothing", Scope.SESSION
    ] = True
    late_materialization: Annotated[
        bool,
        "whether a part is read in stages: the columns that filter, then of the others what is needed",
        Scope.SESSION,
    ] = True
    read_threads: Annotated[
        int, "parts that a query reads at the same time; 0: as many as there are cores", Scope.LIMIT
    ] = 0
    fast_path: Annotated[
        bool, "whether answers may come from metadata, and LIMIT from few parts", Scope.SESSION
    ] = True
    audit: Annotated[
        float,
        "share of the parts left out by statistics that is read all the same, to see that they were right",
        Scope.SESSION,
    ] = 0.01
    max_result_bytes: Annotated[
        int,
        "bytes of a result, or of what is gathered for one, that are held at once; what is streamed has no bound",
        Scope.LIMIT,
    ] = 1 << 30
    peeks_at_once: Annotated[int, "fast-path reads that run at the same time; others wait for their turn"] = (
        16
    )
    statement_timeout_ms: Annotated[
        int, "how long a query may take; 0: as long as it likes", Scope.SESSION
    ] = 0
    join_reduction: Annotated[
        bool, "whether the keys of a small side of a join leave out parts of the other side", Scope.SESSION
    ] = True
    stats_budget: Annotated[int, "bytes of statistics that a part may have, but for what must be kept"] = 1024
    ingest_batch_rows: Annotated[
        int, "records that one batch of a source brings in at most, unless its WITH says otherwise"
    ] = 20_000_000
    ingest_batch_bytes: Annotated[
        int, "bytes that one batch of a source brings in at most, unless its WITH says otherwise"
    ] = 4 << 30
    ingest_record_bytes: Annotated[
        int, "bytes beyond which a record of a source is not decoded, but noted among its errors"
    ] = 64 << 20
    ingest_block_bytes: Annotated[
        int, "bytes that a block of an Avro file, or a page of a Parquet file, may have when it is unpacked"
    ] = 128 << 20
    ingest_poll_ms: Annotated[int, "how often a source that has nothing new is asked again"] = 500
    ingest_retry_ms: Annotated[
        int, "how long a source that cannot be reached is left alone at most, before it is tried again"
    ] = 30_000
    as_of_timeout_ms: Annotated[
        int, "how long a read waits for a time that is not complete yet", Scope.SESSION
    ] = 30_000

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """What each knob means, by name, in the order of declaration."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: hint.__metadata__[0] for name, hint in hints.items()}

    @classmethod
    def scopes(cls) -> dict[str, Scope]:
        """Who may change each knob, by name."""
        hints = get_type_hints(cls, include_extras=True)
        return {
            name: next((mark for mark in hint.__metadata__ if isinstance(mark, Scope)), Scope.DATABASE)
            for name, hint in hints.items()
        }


MAX_NESTING = Config().max_nesting  # the default, for code that is handed no Config, such as a constructor
