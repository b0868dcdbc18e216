"""The whole result of a query as a file: CSV, JSON lines or Parquet, sent as fast as it is taken.

    POST /download?format=csv      sql=SELECT …        the file, in chunks

Rows are read as the client takes them, so memory is bounded, whatever their number. A client that goes ends the query; so does one
that takes nothing for a minute. An error before the first bytes is a page with status 400. One in the middle cuts the connection:
the last chunk never comes, so that nobody takes half a file for a whole one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidegate.errors import BindError, TidegateError, UnsupportedError
from tidegate.scan.result import Result
from tidegate.scan.watch import Watch
from tidegate.serve import export
from tidegate.serve.desk import READS, Client, Desk
from tidegate.serve.web.boxes import Boxes
from tidegate.serve.web.fields import fields
from tidegate.serve.web.layout import page, trouble
from tidegate.serve.web.markup import el
from tidegate.sql import grammar

log = logging.getLogger("tidegate.serve.web")
FORMATS = {
    "csv": ("text/csv; charset=utf-8", export.csv),
    "json": ("application/x-ndjson; charset=utf-8", export.json_lines),
    "parquet": ("application/vnd.apache.parquet", export.parquet_bytes),
}
CHUNK = 1 << 20
STALL_S = 60.0
"""How long a client may take nothing."""


class Downloads:
    """Answers `/download`."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes

    async def download(self, request: Request) -> Response:
        """The file, or a page that says what is wrong."""
        form, sent = request.query_params.get("format", "csv"), await fields(request)
        client = self.boxes.get(sent.get("box", "")).client
        watch = Watch(client.db._open.config.statement_timeout_ms)
        gone = asyncio.ensure_future(_gone(request.receive))
        try:
            if form not in FORMATS:
                raise BindError(f"there is no format {form[:60]!r}", hint=f"one of {', '.join(FORMATS)}")
            result = await _asked(client, sent.get("sql", ""), watch, gone)
        except TidegateError as error:
            gone.cancel()
            return page("Failed", el("h1", "That did not work"), trouble(error), status=400)
        kind, chunks = FORMATS[form]
        return _File(self.boxes.desk, result, chunks(result), watch, gone, kind, f"result.{form}")


async def _asked(client: Client, sql: str, watch: Watch, gone: asyncio.Future[None]) -> Result:
    """The result of a query; who asked may go meanwhile."""
    if not all(isinstance(one, READS) for one in grammar.statements(sql)):
        raise UnsupportedError("only what is read can be downloaded", hint="SELECT …")
    asking = asyncio.ensure_future(client.ask(sql, watch))
    try:
        await asyncio.wait((asking, gone), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            watch.cancel()
        result = await asking
    except asyncio.CancelledError:
        watch.cancel()
        raise
    if not result.names:
        raise UnsupportedError("this statement gives no rows to download", hint="SELECT …")
    return result


async def _gone(receive: Receive) -> None:
    """Ends when the client does."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _File(Response):
    """A file that is sent while it is made."""

    def __init__(
        self,
        desk: Desk,
        result: Result,
        chunks: Iterator[bytes],
        watch: Watch,
        gone: asyncio.Future[None],
        media_type: str,
        name: str,
    ) -> None:
        self.desk, self.result, self.chunks, self.watch, self.gone = desk, result, chunks, watch, gone
        super().__init__(None, 200, {"Content-Disposition": f'attachment; filename="{name}"'}, media_type)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it. Whatever ends it early leaves the answer without its end, and the server cuts the connection."""
        del scope, receive
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (data := await self._next()) is not None:
                for at in range(0, len(data), CHUNK):
                    body = data[at : at + CHUNK]
                    async with asyncio.timeout(STALL_S):
                        await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TidegateError, TimeoutError, OSError) as error:
            told = {"event": "download_cut", "error": type(error).__name__, "rows": self.result.count}
            log.warning("a download was cut short", extra={"tidegate": told})
        finally:
            self.gone.cancel()
            self.watch.cancel()
            with suppress(RuntimeError):  # the server ends, and so do its threads
                self.desk.threads.submit(self.result.close)

    async def _next(self) -> bytes | None:
        """Some more of it, made in a thread; None: that was all."""
        loop = asyncio.get_running_loop()
        making = loop.run_in_executor(self.desk.threads, next, self.chunks, None)
        await asyncio.wait((making, self.gone), return_when=asyncio.FIRST_COMPLETED)
        if self.gone.done():
            self.watch.cancel()
        return await making
