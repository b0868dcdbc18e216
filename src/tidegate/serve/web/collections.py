"""The collections of a lake, and one of them: `/` and `/c/<name>`. From metadata alone."""

from __future__ import annotations

import datetime as dt
from urllib.parse import quote

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import BindError, TidegateError
from tidegate.serve.output import text
from tidegate.serve.web import answer, drawing, reading
from tidegate.serve.web.boxes import Boxes
from tidegate.serve.web.layout import card, facts, page, table, trouble
from tidegate.serve.web.markup import Child, Html, el
from tidegate.serve.web.query import Asked, form
from tidegate.serve.web.words import ago, amount, moment, plural, size
from tidegate.session.partmap import PartMap
from tidegate.session.status import CollectionStatus, Status
from tidegate.text import identifier

DRAWN = 60
"""Collections that have a thumbnail; further ones are listed without."""
VALUE = 60
DATED = 60_000_000_000_000
"""Milliseconds around 1970 within which a date can be written."""


def link(name: str) -> str:
    """The page of a collection."""
    return f"/c/{quote(name, safe='')}"


class Collections:
    """The pages."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes, self.desk = boxes, boxes.desk

    async def index(self, _: Request) -> Response:
        """What there is."""
        content = await run_in_threadpool(self._index)
        return page("", content, at="/", write=self.desk.write)

    def _index(self) -> list[Child]:
        found = self.desk.db.status()
        heading = el("h1", "Collections", el("span", found.root, class_="sub"))
        if not found.collections:
            return [heading, _nothing(self.desk.write)]
        maps = self.desk.db.maps
        owners = {
            name: one
            for one, source in found.sources.items()
            for name in (*source.collections, one, f"{one}_errors")
        }
        cards = []
        for i, (name, one) in enumerate(found.collections.items()):
            try:
                drawn = drawing.mini(maps.collection(name)) if i < DRAWN and one.parts else None
            except TidegateError:  # it was dropped meanwhile
                drawn = None
            cards.append(_tile(name, one, owners.get(name), drawn))
        return [heading, el("ul", cards, class_="tiles"), _views(found), _sources(found)]

    async def one(self, request: Request) -> Response:
        """One collection."""
        name, given = request.path_params["name"], request.query_params
        try:
            content = await run_in_threadpool(
                self._one, name, given.get("x") or None, given.get("y") or None, given.get("sql", "")
            )
        except BindError as error:
            content = [el("h1", name), trouble(error)]
            return page(name, content, at="/", write=self.desk.write, status=404)
        return page(name, content, at="/", write=self.desk.write)

    def _one(self, name: str, x: str | None, y: str | None, sql: str) -> list[Child]:
        status = self.desk.db.status().collections.get(name)
        if status is None:
            raise BindError(
                f'there is no collection "{name}"', hint="it may have been dropped; / lists what there is"
            )
        maps = self.desk.db.maps
        wrong: Child = None
        try:
            found = maps.collection(name, x, y)
        except TidegateError as error:
            wrong, found = trouble(error), maps.collection(name)
        asked = Asked(sql, Boxes.name(), name)
        examples = _examples(name, found)
        return [
            el("div", el("h1", name), _facts(status), class_="title"),
            wrong,
            form(asked, hint=next(iter(examples.values())), examples=examples),
            reading.plain(found),
            reading.parts(),
            answer.empty(),
            self._columns(name, len(found), status.columns),
            _newest(found),
        ]

    def _columns(self, name: str, parts: int, columns: int) -> Html:
        rows: list[list[Child]] = []
        for one in self.desk.db.maps.columns(name):
            known = "all" if one.known == parts else f"{one.known:,} of {parts:,}"
            rows.append(
                [
                    el("code", one.name), el("code", one.type, class_="quiet"), _value(one.low), _value(one.high),
                    "?" if one.nulls is None else amount(one.nulls), known if one.known else "none",
                ]
            )  # fmt: skip
        names = ["column", "type", "least", "greatest", "NULL", "parts with bounds"]
        more = f"The first {len(rows):,} of {columns:,}." if columns > len(rows) else None
        return card(
            "Columns", table(names, rows, frozenset((4, 5))), el("p", more, class_="quiet") if more else None
        )


def _tile(name: str, one: CollectionStatus, owner: str | None, drawn: Html | None) -> Html:
    kind = "table" if owner is None else f"source {owner}" if owner != name else "source"
    newest = f"newest {ago(one.upper - 1)}" if one.rows else "empty"
    return el(
        "li",
        el(
            "a",
            el("span", name, class_="name"),
            el("span", kind, class_="badge"),
            el("span", drawn, class_="thumb"),
            el("span", el("b", amount(one.rows)), " rows", class_="rows"),
            el("span", f"{plural(one.parts, 'part')} · {size(one.bytes)}", class_="quiet"),
            el("span", newest, class_="quiet", title=f"since {moment(one.since)}, upper {moment(one.upper)}"),
            href=link(name),
            class_="tile",
        ),
    )


def _nothing(write: bool) -> Html:
    words = "There is nothing in this lake yet. Make a table, here or with tidegate sql:"
    made = "CREATE TABLE t (id int8, at timestamptz)"
    return card(
        "An empty lake",
        el("p", words),
        el("pre", made),
        el("p", el("a", "Type it", href=f"/query?sql={quote(made)}")) if write else None,
    )


def _views(found: Status) -> Html | None:
    if not found.views:
        return None
    links = [
        el("li", el("a", name, href=f"/query?sql={quote(f'SELECT * FROM {identifier(name)} LIMIT 100')}"))
        for name in found.views
    ]
    return card("Views", el("ul", links, class_="plain"))


def _sources(found: Status) -> Html | None:
    if not found.sources:
        return None
    rows: list[list[Child]] = [
        [
            el("b", name), one.kind, el("span", one.state, class_=f"state {one.state}"), amount(one.errors),
            "never" if one.committed is None else ago(one.committed), one.trouble or "",
        ]
        for name, one in found.sources.items()
    ]  # fmt: skip
    names = ["source", "from", "state", "bad rows", "last batch", "trouble"]
    return card("Sources", table(names, rows, frozenset((3,))), more=el("a", "live", href="/ingest"))


def _facts(one: CollectionStatus) -> Html:
    return facts(
        ("rows", amount(one.rows)),
        ("parts", amount(one.parts)),
        ("bytes", size(one.bytes)),
        ("since", moment(one.since)),
        ("upper", moment(one.upper)),
        ("changes", amount(one.entries)),
        ("retractions", "never" if one.monotonic else "yes"),
    )


def _value(value: object) -> Child:
    if value is None:
        return el("span", "not known", class_="quiet")
    shown = text(value)
    return el("code", shown if len(shown) <= VALUE else shown[: VALUE - 1] + "…")


def _newest(found: PartMap) -> Html:
    """What came last: appended, or put together by compaction."""
    order = found.id.argsort()[::-1][:12].tolist()
    rows: list[list[Child]] = [
        [
            moment(int(found.written[i])), "appended" if not found.level[i] else f"compacted {int(found.level[i])}×",
            amount(int(found.id[i])), amount(int(found.rows[i])), size(int(found.size[i])),
        ]
        for i in order
    ]  # fmt: skip
    return card(
        "Recent changes", table(["written", "how", "part", "rows", "bytes"], rows, frozenset((2, 3, 4)))
    )


def _examples(name: str, found: PartMap) -> dict[str, str]:
    """Queries that show something, by what to call them; the last fifth of the map among them."""
    of = identifier(name)
    examples = {"the first 100": f"SELECT * FROM {of} LIMIT 100", "how many": f"SELECT count(*) FROM {of}"}
    low, high = found.x.low[np.isfinite(found.x.low)], found.x.high[np.isfinite(found.x.high)]
    if found.x.name.startswith("_") or found.x.scale == "text" or not len(low) or not len(high):
        return examples
    at = float(low.min() + 0.8 * (high.max() - low.min()))
    value = f"{at:g}"
    if found.x.scale == "time":
        if not abs(at) < DATED:
            return examples
        value = f"'{dt.datetime.fromtimestamp(at / 1000, dt.UTC):%Y-%m-%d %H:%M}'"
    return {"the last fifth": f"SELECT * FROM {of} WHERE {found.x.name} > {value}", **examples}
