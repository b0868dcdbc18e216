"""Live ingestion: `/ingest`, whose middle is asked for again each second."""

from __future__ import annotations

from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import TidegateError
from tidegate.serve.desk import Desk
from tidegate.serve.web.collections import link
from tidegate.serve.web.layout import card, facts, fragments, page, table
from tidegate.serve.web.markup import Child, Html, el
from tidegate.serve.web.pulse import LOOKS, Pulse
from tidegate.serve.web.scale import number
from tidegate.serve.web.words import ago, ahead, amount, moment, size
from tidegate.session.source_status import SourceStatus

WIDTH, HEIGHT = 600, 120
HEAD = ["collection", "records", "bytes", "kept", "filtered", "expired", "bad", "next to end"]


class Ingestions:
    """The page."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.pulse = desk, Pulse()

    async def page(self, _: Request) -> Response:
        """All sources."""
        live = await run_in_threadpool(self._live)
        return page("Ingestion", el("h1", "Ingestion"), live, at="/ingest", write=self.desk.write)

    async def live(self, _: Request) -> Response:
        """The part of it that moves."""
        return fragments(await run_in_threadpool(self._live))

    def _live(self) -> Html:
        found = self.desk.db.status().sources
        self.pulse.feel(found)
        content: Child = [
            _source(name, one, self.pulse.rates(name), self._ends(one)) for name, one in found.items()
        ]
        if not found:
            content = card(
                "No sources",
                el("p", "A source fills collections from files, Kafka, PostgreSQL or a generator:"),
                el("pre", "CREATE SOURCE events FROM GENERATOR events (RATE 1000)"),
                el("p", "tidegate ingest runs it; so does tidegate serve --ingest.", class_="quiet"),
            )
        return el("div", content, id="live", data_poll="/ingest/live", data_every=1000)

    def _ends(self, one: SourceStatus) -> dict[str, int | None]:
        """When the next rows of each collection end by themselves."""
        found: dict[str, int | None] = dict.fromkeys(one.collections)
        for name in found:
            with suppress(TidegateError):  # it was dropped meanwhile
                found[name] = self.desk.db.maps.next_end(name)
        return found


def _end(at: int | None) -> Child:
    return "–" if at is None else el("span", ahead(at), title=moment(at))


def _source(name: str, one: SourceStatus, rates: list[float], ends: dict[str, int | None]) -> Html:
    counts = one.total
    rows: list[list[Child]] = [
        [
            el("a", collection, href=link(collection)), amount(c.records), size(c.bytes), amount(c.kept), amount(c.filtered),
            amount(c.expired), amount(c.bad), _end(ends[collection]),
        ]
        for collection, c in one.collections.items()
    ]  # fmt: skip
    now = f"{rates[-1]:,.0f}" if rates else "–"
    return card(
        [name, el("span", one.kind, class_="badge"), el("span", one.state, class_=f"state {one.state}")],
        facts(
            ("records a second", el("span", now, data_rate=name)),
            ("records", amount(counts.records)),
            ("kept", amount(counts.kept)),
            ("expired on arrival", amount(counts.expired)),
            ("bad rows", el("a", amount(one.errors), href=link(f"{name}_errors"))),
            ("behind", _lag(one)),
            ("last batch", "never" if one.committed is None else el("span", ago(one.committed), title=moment(one.committed))),
            ("batches", amount(one.batches)),
        ),
        line(rates, f"records a second of {name}"),
        el("div", one.trouble, class_="trouble") if one.trouble else None,
        [el("p", note, class_="quiet") for note in one.notes],
        table(HEAD, rows, frozenset(range(1, len(HEAD)))),
        id_=f"source-{name}",
    )  # fmt: skip


def _lag(one: SourceStatus) -> str:
    lag = one.lag
    if lag is None:
        return "not run here"
    words = [
        f"{lag.records:,} records" if lag.records is not None else "",
        size(lag.bytes) if lag.bytes is not None else "",
        f"{lag.milliseconds / 1000:,.1f} s" if lag.milliseconds is not None else "",
    ]
    return ", ".join(word for word in words if word) or "not known"


def line(values: list[float], label: str) -> Html:
    """A line that moves to the left as values come."""
    top = _above(max(values, default=0.0))
    step = WIDTH / (LOOKS - 1)
    begin = WIDTH - step * (len(values) - 1)
    places = [
        f"{begin + i * step:.1f} {HEIGHT - one / top * (HEIGHT - 8):.1f}" for i, one in enumerate(values)
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
        el("span", f"{number(top)}/s", class_="top"),
        el("span", "two minutes", class_="left"),
        class_="line-chart",
    )


def _above(most: float) -> float:
    """The next round number."""
    unit = 1.0
    while unit * 10 <= most:
        unit *= 10
    return next(unit * n for n in (1, 2, 5, 10) if unit * n >= most)
