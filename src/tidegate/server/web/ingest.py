"""The page `/ingest`: what sources are doing, reloaded every second."""

from __future__ import annotations

from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import TidegateError
from tidegate.ingest.runtime import SourceStatus
from tidegate.server.gateway import Gateway
from tidegate.server.web.collections import collection_url
from tidegate.server.web.layout import card, facts, fragments, page, table
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.part_map.scale import tick_label
from tidegate.server.web.rates import MAX_SAMPLES, SourceRates
from tidegate.text import format_bytes, format_count, format_time, time_ago, time_until

WIDTH, HEIGHT = 600, 120
COLUMN_NAMES = ["collection", "records", "bytes", "kept", "filtered", "expired", "bad", "next expiry"]


class IngestPages:
    """Serves `/ingest`."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.rates = gateway, SourceRates()

    async def page(self, _: Request) -> Response:
        """Shows all sources."""
        live = await run_in_threadpool(self._live)
        return page("Ingestion", el("h1", "Ingestion"), live, at="/ingest", write=self.gateway.write)

    async def live(self, _: Request) -> Response:
        """Returns the part of the page that is reloaded."""
        return fragments(await run_in_threadpool(self._live))

    def _live(self) -> Html:
        sources = self.gateway.db.status().sources
        self.rates.sample(sources)
        content: Child = [
            _source(name, status, self.rates.of(name), self._next_expiries(status))
            for name, status in sources.items()
        ]
        if not sources:
            content = card(
                "No sources",
                el("p", "A source fills collections from files, Kafka, PostgreSQL or a generator:"),
                el("pre", "CREATE SOURCE events FROM GENERATOR events (RATE 1000)"),
                el("p", "Run it with tidegate ingest, or tidegate serve --ingest.", class_="quiet"),
            )
        return el("div", content, id="live", data_poll="/ingest/live", data_every=1000)

    def _next_expiries(self, status: SourceStatus) -> dict[str, int | None]:
        """Returns when the next rows of each collection expire; None: never."""
        expiries: dict[str, int | None] = dict.fromkeys(status.collections)
        for name in expiries:
            with suppress(TidegateError):  # dropped meanwhile
                expiries[name] = self.gateway.db.maps.next_end(name)
        return expiries


def _expiry(at: int | None) -> Child:
    return "–" if at is None else el("span", time_until(at), title=format_time(at))


def _source(name: str, status: SourceStatus, rates: list[float], expiries: dict[str, int | None]) -> Html:
    counts = status.total
    rows: list[list[Child]] = [
        [
            el("a", collection, href=collection_url(collection)), format_count(c.records), format_bytes(c.bytes),
            format_count(c.kept),
            format_count(c.filtered), format_count(c.expired), format_count(c.bad), _expiry(expiries[collection]),
        ]
        for collection, c in status.collections.items()
    ]  # fmt: skip
    now = f"{rates[-1]:,.0f}" if rates else "–"
    return card(
        [name, el("span", status.kind, class_="badge"), el("span", status.state, class_=f"state {status.state}")],
        facts(
            ("records per second", el("span", now, data_rate=name)),
            ("records", format_count(counts.records)),
            ("kept", format_count(counts.kept)),
            ("expired on arrival", format_count(counts.expired)),
            ("bad rows", el("a", format_count(status.errors), href=collection_url(f"{name}_errors"))),
            ("behind", _lag(status)),
            ("last batch", "never" if status.committed is None else el("span", time_ago(status.committed),
            title=format_time(status.committed))),
            ("batches", format_count(status.batches)),
        ),
        line_chart(rates, f"records per second of {name}"),
        el("div", status.trouble, class_="trouble") if status.trouble else None,
        [el("p", note, class_="quiet") for note in status.notes],
        table(COLUMN_NAMES, rows, frozenset(range(1, len(COLUMN_NAMES)))),
        id_=f"source-{name}",
    )  # fmt: skip


def _lag(status: SourceStatus) -> str:
    lag = status.lag
    if lag is None:
        return "not run by this server"
    words = [
        f"{lag.records:,} records" if lag.records is not None else "",
        format_bytes(lag.bytes) if lag.bytes is not None else "",
        f"{lag.milliseconds / 1000:,.1f} s" if lag.milliseconds is not None else "",
    ]
    return ", ".join(word for word in words if word) or "unknown"


def line_chart(values: list[float], label: str) -> Html:
    """Draws the last values as a line; new ones enter at the right."""
    top = _round_up(max(values, default=0.0))
    step = WIDTH / (MAX_SAMPLES - 1)
    begin = WIDTH - step * (len(values) - 1)
    places = [
        f"{begin + i * step:.1f} {HEIGHT - value / top * (HEIGHT - 8):.1f}" for i, value in enumerate(values)
    ]
    path = "M" + "L".join(places) if places else ""
    under = f"{path}L{WIDTH} {HEIGHT}L{begin:.1f} {HEIGHT}z" if path else ""
    return el(
        "div",
        el(
            "svg",
            el("path", d=f"M0 8H{WIDTH}M0 {HEIGHT / 2 + 4:g}H{WIDTH}", class_="grid"),
            el("path", d=under, class_="under") if under else None,
            el("path", d=path, class_="line") if path else None,
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            preserveAspectRatio="none",
            role="img",
            aria_label=label,
        ),
        el("span", f"{tick_label(top)}/s", class_="top"),
        el("span", "two minutes", class_="left"),
        class_="line-chart",
    )


def _round_up(most: float) -> float:
    """Returns the next number of the form 1, 2, 5 × 10ⁿ."""
    unit = 1.0
    while unit * 10 <= most:
        unit *= 10
    return next(unit * n for n in (1, 2, 5, 10) if unit * n >= most)
