"""A database: what users hold in their hands. It wires the rooms together, and holds no logic of its own.

    db = tidegate.open("lake")
    db.sql("CREATE TABLE t (id int8, at timestamptz, payload jsonb)")
    db.append("t", table)                      one atomic batch: all of it or none
    db.sql("SELECT id FROM t WHERE (payload->>'ts')::numeric > 5 LIMIT 10").rows()
    db.compact("t"); db.sweep(); db.status(); db.metrics()

| asked for | done by |
|---|---|
| `open` | `store/place.py` reads the URL, `shard/root.py` finds or makes the database |
| `sql` | `session/execute.py`: `sql/` binds, `scan/` reads, `shard/catalog.py` keeps names |
| `metrics` | `metrics.py` counts, and `session/observe.py` says what |
| `append`, `compact`, `sweep` | `shard/writer.py`, `compact.py`, `sweep.py` |

Any number of processes may have the same database open. Threads may share one `Database`.
"""

from __future__ import annotations

import os
import weakref
from types import TracebackType
from typing import Any, Self

from tidegate.clock import Clock, SystemClock
from tidegate.config import Config
from tidegate.errors import StoreError
from tidegate.scan.result import Result
from tidegate.scan.watch import Watch
from tidegate.session.append import append, milliseconds
from tidegate.session.execute import execute
from tidegate.session.lake import Lake
from tidegate.session.status import Status, status
from tidegate.shard import compact, sweep
from tidegate.shard.compact import Compacted
from tidegate.shard.root import open_root
from tidegate.shard.sweep import Swept
from tidegate.store.place import parse


class Database:
    """An open database. Use as a context, or `close` it; what is committed is safe either way."""

    def __init__(self, lake: Lake) -> None:
        """Use `tidegate.open`."""
        self._lake: Lake | None = lake
        self._shown = lake.root.place.root or "memory"
        # Who forgets to close it still gives back the connection when Python collects it, or at the end.
        self._finalizer = weakref.finalize(self, lake.root.consensus.close)

    @staticmethod
    def open(
        url: str | os.PathLike[str], *, clock: Clock | None = None, config: Config | None = None
    ) -> Database:
        """The database at `url`, made if there is none; see `tidegate.open`."""
        clock = clock or SystemClock()
        return Database(Lake(open_root(parse(url), clock), clock, config or Config()))

    def sql(self, sql: str, *, as_of: int | None = None, watch: Watch | None = None) -> Result:
        """Runs statements; the result of the last.

        `as_of` is the time to read at, in ms, as AS OF is in SQL. With a `watch` another thread can end the queries:
        `watch.cancel()`, or `Watch(timeout_ms=500)` beforehand.
        """
        return execute(self._open, sql, milliseconds(as_of, "as_of"), watch)

    def append(
        self, name: str, rows: Any, at: int | None = None, diff: Any = 1, *, token: str | None = None
    ) -> int:
        """Appends rows to a table as one atomic batch; the time they were given.

        `rows` is an Arrow table, or a mapping of names to arrays or lists. `at` is their time in ms, at or above the
        collection's `upper`; without it, now. `diff` is how often each row is added: -1 retracts it; an array gives each row
        its own. With a `token`, doing it again changes nothing.
        """
        return append(self._open, name, rows, at, diff, token)

    def compact(self, name: str, *, full: bool = False) -> Compacted:
        """Merges small parts of a table, and forgets times that its retention no longer keeps; what was done."""
        return compact.compact(self._open.table(name), full=full)

    def sweep(self) -> Swept:
        """Deletes objects that nothing refers to any more; what was deleted."""
        lake = self._open
        done = lake.catalog.sweep(lake.open)
        for name in status(lake).collections:
            found = sweep.sweep(lake.table(name))
            done.garbage += found.garbage
            done.orphans += found.orphans
            done.temporary += found.temporary
            done.leases += found.leases
        return done

    def status(self) -> Status:
        """The collections, with parts, rows, bytes, `since`, `upper`, leases; from metadata alone."""
        return status(self._open)

    def metrics(self) -> str:
        """What was done since it was opened, in the text format of Prometheus: see `tidegate/metrics.py`."""
        return self._open.metrics.text()

    def set(self, name: str, value: object) -> None:
        """Changes a setting of this open database, as SET does; None: back to its default."""
        self._open.set(name, value)

    def close(self) -> None:
        """Gives back leases and connections. Nothing is lost without it."""
        if self._lake is not None:
            self._lake.close()
        self._finalizer()
        self._lake = None

    @property
    def _open(self) -> Lake:
        if self._lake is None:
            raise StoreError(f"{self._shown} was closed", hint="open it again: tidegate.open(…)")
        return self._lake

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tidegate.Database {self._shown}{' (closed)' if self._lake is None else ''}>"
