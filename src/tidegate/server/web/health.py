"""How the server is: `/health` for people and for programs, `/metrics` for Prometheus.

    GET /health   Accept: application/json    {"status": "ok", "format": 1, "collections": {"orders": {"since": …, "upper": …, …}}}

200 if the metadata can be read, else 503. Who does not know the token is told the status alone.
"""

from __future__ import annotations

import time
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tidegate import __version__
from tidegate.errors import TidegateError
from tidegate.serve.desk import Desk
from tidegate.serve.web.collections import link
from tidegate.serve.web.layout import card, facts, page, table, trouble
from tidegate.serve.web.markup import Child, el
from tidegate.serve.web.words import amount, moment, size
from tidegate.session.status import Status

METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Health:
    """The pages."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def health(self, request: Request) -> Response:
        """Whether it is well."""
        began = time.perf_counter()
        try:
            found: Status | TidegateError = await run_in_threadpool(self.desk.db.status)
        except TidegateError as error:
            found = error
        took = time.perf_counter() - began
        code = 200 if isinstance(found, Status) else 503
        known: bool = request.state.known
        if not known or "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(_data(found, took, known=known), code)
        shown = self._shown(found, took) if isinstance(found, Status) else [trouble(found)]
        return page("Health", el("h1", "Health"), shown, at="/health", write=self.desk.write, status=code)

    def _shown(self, found: Status, took: float) -> list[Child]:
        rows: list[list[Child]] = [
            [
                el("a", name, href=link(name)), moment(one.since), moment(one.upper), amount(one.leases), amount(one.parts),
                size(one.bytes), amount(one.garbage),
            ]
            for name, one in found.collections.items()
        ]  # fmt: skip
        names = ["collection", "since", "upper", "leases", "parts", "bytes", "to sweep"]
        return [
            facts(
                ("status", el("span", "ok", class_="state running")),
                ("metadata", f"{found.metadata}, answered in {1000 * took:.1f} ms"),
                ("format", amount(found.format)),
                ("version", __version__),
                ("database", el("code", found.database)),
                ("lake", el("code", found.root)),
            ),
            card("Collections", table(names, rows, frozenset((3, 4, 5, 6)))),
            el("p", el("a", "Metrics for Prometheus", href="/metrics"), class_="quiet"),
        ]

    async def metrics(self, _: Request) -> Response:
        """What was done since it was opened."""
        return PlainTextResponse(await run_in_threadpool(self.desk.db.metrics), media_type=METRICS)


def _data(found: Status | TidegateError, took: float, *, known: bool) -> dict[str, Any]:
    if isinstance(found, TidegateError):
        return {"status": "failing", **({"error": found.message} if known else {})}
    if not known:
        return {"status": "ok"}
    return {
        "status": "ok",
        "version": __version__,
        "format": found.format,
        "metadata": {"kind": found.metadata, "reachable": True, "ms": round(1000 * took, 3)},
        "collections": {
            name: {
                "since": one.since, "upper": one.upper, "leases": one.leases, "parts": one.parts, "rows": one.rows,
                "bytes": one.bytes,
            }
            for name, one in found.collections.items()
        },
        "sources": {name: {"state": one.state, "errors": one.errors} for name, one in found.sources.items()},
    }  # fmt: skip
