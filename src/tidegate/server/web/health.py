"""The health of the server: `/health` for people and programs, `/metrics` for Prometheus.

    GET /health   Accept: application/json    {"status": "ok", "format": 1, "collections": {"orders": {"since": …, "upper": …, …}}}

The status code is 200 if the metadata can be read, else 503. Without the token, only the status is returned.
"""

from __future__ import annotations

import time
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tidegate import __version__
from tidegate.errors import TidegateError
from tidegate.server.gateway import Gateway
from tidegate.server.web.collections import collection_url, since_text, upper_text
from tidegate.server.web.layout import card, error_box, facts, live, page, table
from tidegate.server.web.markup import Child, el
from tidegate.server.web.terms import term
from tidegate.statements import Status
from tidegate.text import format_bytes, format_count

METRICS = "text/plain; version=0.0.4; charset=utf-8"


class HealthPages:
    """Serves `/health` and `/metrics`."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def health(self, request: Request) -> Response:
        """Reports whether the metadata can be read, as a page or as JSON."""
        began = time.perf_counter()
        try:
            outcome: Status | TidegateError = await run_in_threadpool(self.gateway.db.status)
        except TidegateError as error:
            outcome = error
        took = time.perf_counter() - began
        code = 200 if isinstance(outcome, Status) else 503
        known: bool = request.state.known
        if not known or "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(_data(outcome, took, known=known), code)
        shown = live(
            "health", self._details(outcome, took) if isinstance(outcome, Status) else error_box(outcome)
        )
        return page("Health", el("h1", "Health"), shown, at="/health", write=self.gateway.write, status=code)

    def _details(self, status: Status, took: float) -> list[Child]:
        rows: list[list[Child]] = [
            [
                el("a", name, href=collection_url(name)), since_text(one.since), upper_text(one.upper), format_count(one.leases),
                format_count(one.parts), format_bytes(one.bytes), format_count(one.garbage),
            ]
            for name, one in status.collections.items()
        ]  # fmt: skip
        names = ["collection", "since", "upper", "leases", "parts", "bytes", "garbage"]
        words = {
            "collection": "collection", "since": "since", "upper": "upper", "leases": "lease", "parts": "part",
            "garbage": "garbage",
        }  # fmt: skip
        collections = table(
            names, rows, frozenset((3, 4, 5, 6)), words=words, stacked=True, label="Collections"
        )
        return [
            facts(
                ("status", el("span", "ok", class_="state running")),
                (term("consensus", "metadata"), f"{status.metadata}, answered in {1000 * took:.1f} ms"),
                ("format", format_count(status.format)),
                ("version", __version__),
                ("database", el("code", status.database)),
                (term("lake"), el("code", status.root or "memory")),
            ),
            card("Collections", collections) if rows else None,
            el("p", el("a", "Metrics for Prometheus", href="/metrics"), class_="quiet"),
        ]

    async def metrics(self, _: Request) -> Response:
        """Returns the counters since the database was opened."""
        return PlainTextResponse(await run_in_threadpool(self.gateway.db.metrics), media_type=METRICS)


def _data(outcome: Status | TidegateError, took: float, *, known: bool) -> dict[str, Any]:
    if isinstance(outcome, TidegateError):
        return {"status": "failing", **({"error": outcome.message} if known else {})}
    if not known:
        return {"status": "ok"}
    return {
        "status": "ok",
        "version": __version__,
        "format": outcome.format,
        "metadata": {"kind": outcome.metadata, "reachable": True, "ms": round(1000 * took, 3)},
        "collections": {
            name: {
                "since": one.since, "upper": one.upper, "leases": one.leases, "parts": one.parts, "rows": one.rows,
                "bytes": one.bytes,
            }
            for name, one in outcome.collections.items()
        },
        "sources": {name: {"state": one.state, "errors": one.errors} for name, one in outcome.sources.items()},
    }  # fmt: skip
