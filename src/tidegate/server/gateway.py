"""One database for all clients of a server: sessions, permission checks, and a thread pool.

    gateway = Gateway(db, write=False, files=("/data/in",))
    client = gateway.client()                        one connection or one browser page, with its own settings
    result = await client.ask("SELECT …", watch)     runs in a thread; watch.cancel() stops it
    client.sql("SELECT …", watch)                    the same, for callers that are in a thread already

    web/       pages, /metrics, /health     ┐
    postgres/  the PostgreSQL protocol      ┴→ ClientSession → Database session

Without `write`, a gateway refuses every statement that would change the lake, by its kind and before it is bound. A client that may
write reaches only files below `files` and hosts in `hosts` (`tidegate.access`), and none of the server's secrets.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from tidegate.access import Reach
from tidegate.database import Database
from tidegate.errors import ReadOnlyError
from tidegate.query import CancelToken, Result
from tidegate.sql.parse import parse_statements, statement, table_statement
from tidegate.statements import kind_of

READ_STATEMENTS = (
    statement.SelectStatement,
    statement.Explain,
    statement.Show,
    statement.Set,
    table_statement.Execute,
    table_statement.Deallocate,
)
"""Statements that change at most the client's own settings; EXPLAIN ANALYZE refuses writes by itself, PREPARE what it names."""


class Gateway:
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
        self.closed = threading.Event()

    def client(self) -> ClientSession:
        """Opens a session for a new connection."""
        return ClientSession(self)

    def close(self) -> None:
        """Stops the threads without waiting; later requests fail."""
        self.closed.set()
        self.threads.shutdown(wait=False, cancel_futures=True)


class ClientSession:
    """One client's session, with settings and permissions of its own."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.db = gateway.db.session(gateway.reach)

    def limit(self, name: str, most: int) -> None:
        """Lowers a setting of this client to `most`, unless it is lower already."""
        self.db.set(name, min(most, getattr(self.db.context.config, name)))

    def sql(self, text: str, watch: CancelToken | None = None, as_of: int | None = None) -> Result:
        """Runs statements; returns the result of the last."""
        if not self.gateway.write:
            for parsed in parse_statements(text):
                self.check(parsed)
        return self.db.sql(text, as_of=as_of, watch=watch)

    def check(self, parsed: statement.Statement) -> None:
        """Raises `ReadOnlyError` if this client may not run a statement."""
        if isinstance(parsed, table_statement.Prepare):
            self.check(parsed.inner)
        elif not isinstance(parsed, READ_STATEMENTS):
            self.check_write(kind_of(parsed).replace("_", " ").upper())

    def changes_nothing(self, sql: str) -> bool:
        """Whether a text only reads, so that it may run again; EXECUTE is what it names."""
        named = self.db.context.named_statements
        for parsed in parse_statements(sql):
            if isinstance(parsed, table_statement.Execute) and parsed.name.text in named:
                parsed = named[parsed.name.text].inner  # what is executed
            if not isinstance(parsed, READ_STATEMENTS):
                return False
        return True

    def check_write(self, what: str) -> None:
        """Raises `ReadOnlyError` if this client may not write; `what` is the statement."""
        if not self.gateway.write:
            raise ReadOnlyError(
                f"this server is read-only, and {what} writes",
                hint="tidegate serve --write lets clients change the lake",
            )

    async def ask(self, text: str, watch: CancelToken | None = None, as_of: int | None = None) -> Result:
        """Runs statements in a thread; for callers on the event loop."""
        loop, here = asyncio.get_running_loop(), copy_context()  # the ids of the request, for the logs
        return await loop.run_in_executor(
            self.gateway.threads, lambda: here.run(self.sql, text, watch, as_of)
        )
