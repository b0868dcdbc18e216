"""What every door of a server asks: one open database, behind one guard, on threads that wait for it.

    desk = Desk(db, write=False, files=("/data/in",))
    client = desk.client()                           one connection, one browser: settings of its own
    result = await client.ask("SELECT …", watch)     in a thread; watch.cancel() ends it
    client.sql("SELECT …", watch)                    the same, for who waits in a thread already

    web/   pages, /metrics, /health     ┐
    pg/    the protocol of PostgreSQL   ┴→ Client → Database (its session) → …

A desk that was not told to `write` refuses every statement that would change the lake, by its kind and before it is bound. Whoever
writes through a desk reaches no file but those below `files` (`session/reach.py`), and none of the server's secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tidegate.database import Database
from tidegate.errors import ReadOnlyError
from tidegate.scan.result import Result
from tidegate.scan.watch import Watch
from tidegate.session.execute import kind_of
from tidegate.session.reach import Reach
from tidegate.sql import grammar
from tidegate.sql.statement import Explain, Query, Set, Show, Statement

READS = (Query, Explain, Show, Set)
"""Statements that change nothing but the client's own settings; EXPLAIN ANALYZE of what writes is refused by itself."""


class Desk:
    """One open database for many clients. Threads may share it."""

    def __init__(
        self,
        db: Database,
        *,
        write: bool = False,
        files: Sequence[str] = (),
        hosts: Sequence[str] = (),
        threads: int = 64,
    ) -> None:
        self.db, self.write = db, write
        self.reach = Reach(tuple(files), tuple(hosts))
        self.threads = ThreadPoolExecutor(threads, "tidegate-client")

    def client(self) -> Client:
        """For a new connection."""
        return Client(self)

    def close(self) -> None:
        """Waits for nobody; whoever still asks is answered with an error."""
        self.threads.shutdown(wait=False, cancel_futures=True)


class Client:
    """One client's view of the database."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.db = desk.db.session(desk.reach)

    def limit(self, name: str, most: int) -> None:
        """Lowers a setting of this client to `most`, unless the database's is lower already."""
        self.db.set(name, min(most, getattr(self.db._open.config, name)))

    def sql(self, text: str, watch: Watch | None = None, as_of: int | None = None) -> Result:
        """Runs statements; the result of the last."""
        for one in grammar.statements(text):
            self.check(one)
        return self.db.sql(text, as_of=as_of, watch=watch)

    def check(self, given: Statement) -> None:
        """Raises if the desk does not let this statement through."""
        if not self.desk.write and not isinstance(given, READS):
            what = kind_of(given).replace("_", " ").upper()
            raise ReadOnlyError(
                f"this server only reads, and {what} writes",
                hint="tidegate serve --write lets its clients change the lake",
            )

    async def ask(self, text: str, watch: Watch | None = None, as_of: int | None = None) -> Result:
        """The same, for who cannot wait in their own thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.desk.threads, lambda: self.sql(text, watch, as_of))
