"""Downloads the whole result of a query as CSV, JSON lines or Parquet.

    POST /download?format=csv      sql=SELECT …        the file, in chunks

Rows are read as fast as the client takes them, so memory is bounded. The query is cancelled when the client disconnects, or takes
nothing for a minute. An error before the first bytes is a page with status 400. A later error cuts the connection without the last
chunk, so that half a file is not mistaken for a whole one.
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
from tidegate.query import CancelToken, Result
from tidegate.server import export
from tidegate.server.gateway import ClientSession, Gateway
from tidegate.server.web.forms import form_fields
from tidegate.server.web.layout import error_box, page
from tidegate.server.web.markup import el
from tidegate.server.web.query.boxes import QueryBoxes

log = logging.getLogger("tidegate.server.web")
FORMATS = {
    "csv": ("text/csv; charset=utf-8", export.csv_lines),
    "json": ("application/x-ndjson; charset=utf-8", export.json_lines),
    "parquet": ("application/vnd.apache.parquet", export.parquet_chunks),
}
CHUNK_BYTES = 1 << 20
STALL_SECONDS = 60.0
"""How long a client may take no data."""


class DownloadPage:
    """Answers `/download`."""

    def __init__(self, boxes: QueryBoxes) -> None:
        self.boxes = boxes

    async def download(self, request: Request) -> Response:
        """Sends the file, or a page with the error."""
        format_, fields = request.query_params.get("format", "csv"), await form_fields(request)
        client = self.boxes.get(fields.get("box", "")).client
        watch = CancelToken(client.db.context.config.statement_timeout_ms)
        gone = asyncio.ensure_future(_wait_for_disconnect(request.receive))
        try:
            if format_ not in FORMATS:
                raise BindError(f"unknown format {format_[:60]!r}", hint=f"one of {', '.join(FORMATS)}")
            result = await _run_query(client, fields.get("sql", ""), watch, gone)
        except TidegateError as error:
            gone.cancel()
            return page("Error", el("h1", "Error"), error_box(error), status=400)
        kind, chunks = FORMATS[format_]
        return _StreamedFile(
            self.boxes.gateway, result, chunks(result), watch, gone, kind, f"result.{format_}"
        )


async def _run_query(
    client: ClientSession, sql: str, watch: CancelToken, gone: asyncio.Future[None]
) -> Result:
    """Runs a query; cancels it if the client disconnects."""
    if not client.changes_nothing(sql):
        raise UnsupportedError("only the rows of a query can be downloaded", hint="SELECT …")
    running = asyncio.ensure_future(client.ask(sql, watch))
    try:
        await asyncio.wait((running, gone), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            watch.cancel()
        result = await running
    except asyncio.CancelledError:
        watch.cancel()
        raise
    if not result.names:
        raise UnsupportedError("this statement returns no rows to download", hint="SELECT …")
    return result


async def _wait_for_disconnect(receive: Receive) -> None:
    """Returns when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _StreamedFile(Response):
    """A file that is sent while it is written."""

    def __init__(
        self,
        gateway: Gateway,
        result: Result,
        chunks: Iterator[bytes],
        watch: CancelToken,
        gone: asyncio.Future[None],
        media_type: str,
        name: str,
    ) -> None:
        self.gateway, self.result, self.chunks, self.watch, self.gone = gateway, result, chunks, watch, gone
        super().__init__(None, 200, {"Content-Disposition": f'attachment; filename="{name}"'}, media_type)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the file; if it ends early, the last chunk is missing and the connection is cut."""
        del scope, receive
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (data := await self._next()) is not None:
                for at in range(0, len(data), CHUNK_BYTES):
                    body = data[at : at + CHUNK_BYTES]
                    async with asyncio.timeout(STALL_SECONDS):
                        await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TidegateError, TimeoutError, OSError) as error:
            fields = {"event": "download_cut", "error": type(error).__name__, "rows": self.result.count}
            log.warning("a download was cut short", extra={"tidegate": fields})
        finally:
            self.gone.cancel()
            self.watch.cancel()
            with suppress(RuntimeError):  # the server is shutting down, and so are its threads
                self.gateway.threads.submit(self.result.close)

    async def _next(self) -> bytes | None:
        """Produces the next chunk in a thread; None: there is none."""
        loop = asyncio.get_running_loop()
        chunk = loop.run_in_executor(self.gateway.threads, next, self.chunks, None)
        await asyncio.wait((chunk, self.gone), return_when=asyncio.FIRST_COMPLETED)
        if self.gone.done():
            self.watch.cancel()
        return await chunk
