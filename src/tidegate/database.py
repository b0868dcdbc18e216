"""A database: what `tidegate.open` returns.

    db = tidegate.open("lake")
    db.sql("CREATE TABLE t (id int8, at timestamptz, payload jsonb)")
    db.append("t", table)                      one atomic batch: all of it or none
    db.sql("SELECT id FROM t WHERE (payload->>'ts')::numeric > 5 LIMIT 10").rows()
    db.compact("t"); db.sweep(); db.status(); db.metrics()

Any number of processes may have the same database open. Threads may share one `Database`.
"""

from __future__ import annotations

import os
import weakref

from tidegate.boundary import instance, public
from tidegate.clock import Clock, SystemClock
from tidegate.config import Config
from tidegate.context import Context, open_context
from tidegate.errors import StoreError
from tidegate.session import Session, SparkEngine
from tidegate.storage import parse_location
from tidegate.storage.catalog import open_root


@public
class Database(Session):
    """An open database: the session of its owner, whose settings count for everybody.

    with tidegate.open("lake") as db:
        db.sql("CREATE TABLE t (id int8)")
        db.append("t", {"id": [1, 2]})
    """

    def __init__(self, context: Context) -> None:
        """Use `tidegate.open`."""
        super().__init__(context)
        # A database that nobody closes gives its connection back when Python collects it, or at exit.
        self._finalizer = weakref.finalize(self, context.root.consensus.close)

    @staticmethod
    def open(
        url: str | os.PathLike[str], *, clock: Clock | None = None, config: Config | None = None
    ) -> Database:
        """Opens the database at `url`, and creates it if there is none; see `tidegate.open`."""
        clock = clock or SystemClock()
        config = Config() if config is None else instance(config, Config, "config")
        return Database(open_context(open_root(parse_location(url), clock), clock, config, SparkEngine()))

    def close(self) -> None:
        """Stops ingestions, ends results and sessions, and releases leases and connections."""
        context = self._context
        super().close()
        if context is not None:
            context.close()
        self._finalizer()

    def _closed_error(self) -> StoreError:
        return StoreError(f"{self._shown} was closed", hint="open it again: tidegate.open(…)")
