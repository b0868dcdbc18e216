"""The pages `/` (all collections) and `/c/<name>` (one collection), from metadata alone."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from urllib.parse import quote

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import BindError, TidegateError
from tidegate.query import format_value
from tidegate.server.web.forms import QueryForm
from tidegate.server.web.layout import card, error_box, facts, live, page, table
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.part_map import svg as drawing
from tidegate.server.web.part_map import view
from tidegate.server.web.query import answer
from tidegate.server.web.query.boxes import QueryBoxes
from tidegate.server.web.query.form import query_form
from tidegate.server.web.terms import hint, term
from tidegate.statements import CollectionStatus, Status
from tidegate.statements.preview import PartMap
from tidegate.text import format_bytes, format_count, format_time, identifier, plural, time_ago

MAX_THUMBNAILS = 60
"""Collections with a thumbnail; more are listed without."""
MAX_VALUE_LENGTH = 60
MAX_DATE_MS = 60_000_000_000_000
"""Milliseconds before or after 1970 within which a date can be written."""


def collection_url(name: str) -> str:
    """Returns the URL of a collection's page."""
    return f"/c/{quote(name, safe='')}"


def since_text(since: int) -> str:
    """Writes the earliest time that can be read; 0: nothing was forgotten yet."""
    return format_time(since) if since else "the beginning"


def upper_text(upper: int) -> str:
    """Writes the first time that is not complete; 0: nothing was written yet."""
    return format_time(upper) if upper else "nothing written"


class CollectionPages:
    """Serves `/` and `/c/<name>`."""

    def __init__(self, boxes: QueryBoxes) -> None:
        self.boxes, self.gateway = boxes, boxes.gateway

    async def index(self, _: Request) -> Response:
        """Lists the collections, views and sources."""
        content = await run_in_threadpool(self._index)
        return page("", content, at="/", write=self.gateway.write)

    def _index(self) -> list[Child]:
        status = self.gateway.db.status()
        heading = el("h1", "Collections", el("span", status.root, class_="sub"))
        if not status.collections:
            return [heading, live("collections", _empty_lake_card(self.gateway.write))]
        maps = self.gateway.db.maps
        owners = {
            name: owner
            for owner, source in status.sources.items()
            for name in (*source.collections, owner, f"{owner}_errors")
        }
        cards = []
        for i, (name, collection) in enumerate(status.collections.items()):
            try:
                thumbnail = (
                    drawing.thumbnail_svg(maps.collection(name))
                    if i < MAX_THUMBNAILS and collection.parts
                    else None
                )
            except TidegateError:  # dropped meanwhile
                thumbnail = None
            cards.append(_tile(name, collection, owners.get(name), thumbnail))
        lists = el("ul", cards, class_="tiles"), _views(status), _sources(status)
        return [heading, live("collections", lists)]

    async def collection(self, request: Request) -> Response:
        """Shows one collection."""
        name, query = request.path_params["name"], request.query_params
        try:
            content = await run_in_threadpool(
                self._collection, name, query.get("x") or None, query.get("y") or None, query.get("sql", "")
            )
        except BindError as error:
            content = [el("h1", name), error_box(error)]
            return page(name, content, at="/", write=self.gateway.write, status=404)
        return page(name, content, at="/", write=self.gateway.write)

    def _collection(self, name: str, x: str | None, y: str | None, sql: str) -> list[Child]:
        lake = self.gateway.db.status()
        status = lake.collections.get(name)
        if status is None:
            is_view = name in lake.views
            raise BindError(
                f'"{name}" is a view, and has no parts' if is_view else f'collection "{name}" does not exist',
                hint="the page Views shows what it reads"
                if is_view
                else "the page Collections lists those that exist",
            )
        maps = self.gateway.db.maps
        problem: Child = None
        try:
            part_map = maps.collection(name, x, y)
        except TidegateError as error:
            problem, part_map = error_box(error), maps.collection(name)
        form = QueryForm(sql, QueryBoxes.new_id(), name)
        examples = _examples(name, part_map)
        return [
            el("div", el("h1", name), live("facts", _facts(status)), class_="title"),
            problem,
            query_form(form, hint=next(iter(examples.values())), examples=examples),
            answer.empty_result(),
            view.collection_view(part_map),
            view.parts_placeholder(),
            self._columns(name, len(part_map), status.columns),
            self._definition(name),
            live("changes", _recent_changes(part_map)),
        ]

    def _definition(self, name: str) -> Child:
        """Builds the statements that make a table: key, defaults, comments; a source has a page of its own."""
        with suppress(BindError):
            made = self.gateway.db.sql(f"SHOW CREATE TABLE {identifier(name)}").rows()[0][1]
            return card("Definition", el("pre", made, class_="definition"))
        return None

    def _columns(self, name: str, parts: int, columns: int) -> Html:
        rows: list[list[Child]] = []
        for column in self.gateway.db.maps.columns(name):
            known = "all" if column.known == parts else f"{column.known:,} of {parts:,}"
            rows.append(
                [
                    el("code", column.name), el("code", column.type, class_="quiet"), _value(column.low), _value(column.high),
                    "?" if column.nulls is None else format_count(column.nulls), known if column.known else "none",
                ]
            )  # fmt: skip
        names = ["column", "type", "min", "max", "NULL", "parts with bounds"]
        words = {"min": "bound", "max": "bound", "parts with bounds": "statistics"}
        more = f"The first {len(rows):,} of {columns:,} columns." if columns > len(rows) else None
        return card(
            "Columns",
            table(names, rows, frozenset((4, 5)), words=words, stacked=True, label="Columns"),
            el("p", more, class_="quiet") if more else None,
        )


def _tile(name: str, status: CollectionStatus, owner: str | None, thumbnail: Html | None) -> Html:
    kind = "table" if owner is None else f"source {owner}" if owner != name else "source"
    newest = f"newest {time_ago(status.upper - 1)}" if status.rows else "empty"
    deleted = f" · {format_count(status.deleted)} deleted" if status.deleted else ""
    return el(
        "li",
        el(
            "a",
            el("span", name, class_="name"),
            el("span", kind, class_="badge"),
            el("span", thumbnail or el("span", "no parts", class_="quiet"), class_="thumb"),
            el("span", el("b", format_count(status.rows)), f" rows{deleted}", class_="rows"),
            el("span", f"{plural(status.parts, 'part')} · {format_bytes(status.bytes)}", class_="quiet"),
            el(
                "span",
                newest,
                class_="quiet",
                title=f"since {since_text(status.since)}, upper {upper_text(status.upper)}",
            ),
            href=collection_url(name),
            class_="tile",
        ),
        data_key=name,
    )


def _empty_lake_card(write: bool) -> Html:
    words = "This lake is empty. Create a table here or with tidegate sql:"
    statement = "CREATE TABLE t (id int8, at timestamptz)"
    return card(
        "Empty lake",
        el("p", words),
        el("pre", statement),
        el("p", el("a", "Open in the query box", href=f"/query?sql={quote(statement)}")) if write else None,
    )


def _views(status: Status) -> Html | None:
    if not status.views:
        return None
    links = [el("li", el("a", name, href=f"/views#view-{quote(name)}")) for name in status.views]
    more = el("a", "definitions", href="/views")
    return card("Views", el("ul", links, class_="plain"), more=more)


def _sources(status: Status) -> Html | None:
    if not status.sources:
        return None
    rows: list[list[Child]] = [
        [
            el("a", name, href=f"/ingest#source-{quote(name)}"),
            source.kind,
            el("span", source.state, class_=f"state {source.state}"),
            format_count(source.errors),
            "never" if source.committed is None else time_ago(source.committed),
            source.trouble or "",
        ]
        for name, source in status.sources.items()
    ]
    names = ["source", "from", "state", "bad rows", "last batch", "problem"]
    listing = table(
        names,
        rows,
        frozenset((3,)),
        words={"source": "source", "from": "upstream"},
        stacked=True,
        label="Sources",
    )
    return card("Sources", listing, more=el("a", "lag over time", href="/ingest"))


RETRACTIONS_MEANING = (
    "Whether retractions are stored as rows of their own, so that readers must add up the diffs of identical rows. Rows that were "
    "deleted by their position do not count."
)


def _facts(status: CollectionStatus) -> Html:
    return facts(
        ("rows", format_count(status.rows)),
        (term("part", "parts"), format_count(status.parts)),
        ("bytes", format_bytes(status.bytes)),
        (term("since"), since_text(status.since)),
        (term("upper"), upper_text(status.upper)),
        (term("lease", "leases"), format_count(status.leases)),
        (term("log", "log entries"), format_count(status.entries)),
        (term("deletion", "deleted rows"), format_count(status.deleted)),
        (hint("retractions as rows", RETRACTIONS_MEANING), "none" if status.monotonic else "yes"),
    )


def _value(value: object) -> Child:
    if value is None:
        return el("span", "unknown", class_="quiet")
    shown = format_value(value)
    return el("code", shown if len(shown) <= MAX_VALUE_LENGTH else shown[: MAX_VALUE_LENGTH - 1] + "…")


def _recent_changes(part_map: PartMap) -> Html:
    """Lists the newest parts: appended, or written by compaction."""
    order = part_map.id.argsort()[::-1][:12].tolist()
    rows: list[list[Child]] = [
        [
            format_time(int(part_map.written[i])),
            "appended" if not part_map.level[i] else f"compacted {int(part_map.level[i])}×",
            format_count(int(part_map.id[i])), format_count(int(part_map.rows[i])), format_bytes(int(part_map.size[i])),
        ]
        for i in order
    ]  # fmt: skip
    if not rows:
        return card("Recent changes", el("p", "Nothing was written yet.", class_="quiet"))
    names, words = ["written", "how", "part", "rows", "bytes"], {"how": "compaction", "part": "part"}
    return card(
        "Recent changes",
        table(names, rows, frozenset((2, 3, 4)), words=words, stacked=True, label="Recent changes"),
    )


def _examples(name: str, part_map: PartMap) -> dict[str, str]:
    """Returns example queries by label; one reads the last fifth of the map."""
    of = identifier(name)
    examples = {"first 100 rows": f"SELECT * FROM {of} LIMIT 100", "count": f"SELECT count(*) FROM {of}"}
    low, high = part_map.x.low[np.isfinite(part_map.x.low)], part_map.x.high[np.isfinite(part_map.x.high)]
    if part_map.x.name.startswith("_") or part_map.x.scale == "text" or not len(low) or not len(high):
        return examples
    at = float(low.min() + 0.8 * (high.max() - low.min()))
    value = f"{at:g}"
    if part_map.x.scale == "time":
        if not abs(at) < MAX_DATE_MS:
            return examples
        value = f"'{dt.datetime.fromtimestamp(at / 1000, dt.UTC):%Y-%m-%d %H:%M}'"
    return {"last fifth": f"SELECT * FROM {of} WHERE {part_map.x.name} > {value}", **examples}
