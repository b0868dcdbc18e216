"""The page `/ingest`: what sources are doing now, and what they did in the last hour."""

from __future__ import annotations

from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import TidegateError
from tidegate.ingest.runtime import SourceStatus
from tidegate.server.gateway import Gateway
from tidegate.server.web.collections import collection_url
from tidegate.server.web.layout import card, facts, live, page, table
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.part_map.scale import tick_label
from tidegate.server.web.sources.chart import line_chart
from tidegate.server.web.sources.history import LagUnit, SourceSample, SourceSampler, lag_series, rates
from tidegate.server.web.terms import hint, term
from tidegate.statements import source_statuses
from tidegate.text import format_bytes, format_count, format_time, plural, time_ago, time_until

RELOAD_MILLISECONDS = 1_000
COLUMN_NAMES = ["collection", "records", "bytes", "kept", "filtered", "expired", "bad", "next expiry"]
WORDS = {"collection": "collection", "filtered": "transform", "expired": "expiry", "next expiry": "expiry"}
STATES = {
    "ready": "This server does not run it; another process may.",
    "paused": "ALTER SOURCE … PAUSE stopped it; ALTER SOURCE … RESUME lets it continue where it was.",
    "stopped": "It has more bad rows than MAX ERRORS allows.",
    "running": "It reads records now.",
    "idle": "It has read everything that its upstream has, and waits for more.",
    "retrying": "Its upstream does not answer; it tries again.",
    "failed": "It ended with the error below.",
    "done": "It has read everything, and has ended.",
}


class SourcesPage:
    """Serves `/ingest`."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.sampler = gateway, SourceSampler(gateway)

    async def page(self, _: Request) -> Response:
        """Shows all sources."""
        content = await run_in_threadpool(self._sources)
        return page("Sources", el("h1", "Sources"), content, at="/ingest", write=self.gateway.write)

    def _sources(self) -> Html:
        self.sampler.watched()
        sources = source_statuses(self.gateway.db.context)
        content: Child = [
            _source(name, status, self.sampler.history.of(name), self._next_expiries(status))
            for name, status in sources.items()
        ]
        return live("live", content if sources else _no_sources(), every=RELOAD_MILLISECONDS)

    def _next_expiries(self, status: SourceStatus) -> dict[str, int | None]:
        """Returns when the next rows of each collection expire; None: never."""
        expiries: dict[str, int | None] = dict.fromkeys(status.collections)
        for name in expiries:
            with suppress(TidegateError):  # dropped meanwhile
                expiries[name] = self.gateway.db.maps.next_end(name)
        return expiries


def _no_sources() -> Html:
    return card(
        "No sources",
        el("p", "A ", term("source"), " fills collections from files, Kafka, PostgreSQL or a generator:"),
        el("pre", "CREATE SOURCE events FROM GENERATOR events (RATE 1000)"),
        el("p", "Run it with tidegate ingest, or tidegate serve --ingest.", class_="quiet"),
    )


def _expiry(at: int | None) -> Child:
    return "–" if at is None else el("span", time_until(at), title=format_time(at))


def state_mark(state: str) -> Html:
    """Shows the state of a source with its meaning."""
    attributes = {"tabindex": "0", "data_tip": STATES[state]} if state in STATES else {}
    return el("span", state, class_=f"state {state}", **attributes)


def _source(
    name: str, status: SourceStatus, samples: list[SourceSample], expiries: dict[str, int | None]
) -> Html:
    counts = status.total
    rows: list[list[Child]] = [
        [
            el("a", collection, href=collection_url(collection)), format_count(c.records), format_bytes(c.bytes),
            format_count(c.kept),
            format_count(c.filtered), format_count(c.expired), format_count(c.bad), _expiry(expiries[collection]),
        ]
        for collection, c in status.collections.items()
    ]  # fmt: skip
    last = "never" if status.committed is None else time_ago(status.committed)
    series = rates(samples)
    now = f"{series[-1][1]:,.0f}" if series else "–"
    return card(
        [name, el("span", status.kind, class_="badge"), state_mark(status.state)],
        facts(
            ("records per second", el("span", now, data_rate=name)),
            ("records", format_count(counts.records)),
            ("kept", format_count(counts.kept)),
            (term("expiry", "expired on arrival"), format_count(counts.expired)),
            ("bad rows", el("a", format_count(status.errors), href=collection_url(f"{name}_errors"))),
            (term("source lag", "behind"), _lag(status)),
            ("last batch", last),
            ("batches", format_count(status.batches)),
        ),
        el("div", _rate_chart(name, series), _lag_chart(name, samples), class_="charts"),
        el("div", status.trouble, class_="trouble") if status.trouble else None,
        [el("p", note, class_="quiet") for note in status.notes],
        table(
            COLUMN_NAMES, rows, frozenset(range(1, len(COLUMN_NAMES))), words=WORDS, stacked=True, label=f"Collections of {name}"
        ),
        id_=f"source-{name}",
    )  # fmt: skip


def _rate_chart(name: str, series: list[tuple[float, float]]) -> Html:
    return line_chart(
        series, f"records per second of {name}", heading="records per second", label=lambda rate: tick_label(round(rate))
    )  # fmt: skip


def _lag_chart(name: str, samples: list[SourceSample]) -> Html:
    unit, series = lag_series(samples)
    heading: Child = [term("source lag", "lag"), LAG_HEADINGS[unit]]
    if unit == "age":
        heading = hint(
            LAG_HEADINGS[unit], "This server does not run the source, so that its lag is not known here."
        )
    return line_chart(series, f"lag of {name}", heading=heading, label=lambda value: _amount(unit, value))


LAG_HEADINGS: dict[LagUnit, str] = {
    "milliseconds": ", age of the oldest unread record",
    "records": ", unread records",
    "bytes": ", unread bytes",
    "age": "time since the last batch",
}


def _amount(unit: LagUnit, value: float) -> str:
    match unit:
        case "records":
            return tick_label(round(value))
        case "bytes":
            return format_bytes(int(value))
        case "milliseconds" | "age":
            seconds = value / 1000
            return f"{seconds:,.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def _lag(status: SourceStatus) -> str:
    lag = status.lag
    if lag is None:
        return "not run by this server"
    words = [
        plural(lag.records, "record") if lag.records is not None else "",
        format_bytes(lag.bytes) if lag.bytes is not None else "",
        f"{lag.milliseconds / 1000:,.1f} s" if lag.milliseconds is not None else "",
    ]
    return ", ".join(word for word in words if word) or "unknown"
