"""The query box: what a query would do with parts while it is typed, and its rows when it is run.

    /query        the box, and the map of whatever it reads
    /explain      as it is typed: from metadata alone (`session/querymap.py`)
    /run          the rows, how they were come by, and what each stage took
    /cancel       ends it
    /part         one part: its bounds, and why it is read or left out
    /parts        the map as a table

All but the first give pieces of a page, each with the id of what it replaces.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import TidegateError
from tidegate.scan.result import Result
from tidegate.serve.web import answer, reading
from tidegate.serve.web.boxes import Boxes
from tidegate.serve.web.fields import fields
from tidegate.serve.web.layout import fragments, page, trouble
from tidegate.serve.web.markup import Child, Html, el
from tidegate.session.querymap import Maps, QueryMap

NO_EXAMPLES: Mapping[str, str] = {}
LOOK_S = 0.25
"""How often it is looked whether whoever asked is still there."""


@dataclass(frozen=True)
class Asked:
    """What a box sends."""

    sql: str
    box: str
    collection: str | None = None
    """The page that it stands on."""
    of: str | None = None
    """The collection whose axes were chosen, and these."""
    x: str | None = None
    y: str | None = None
    only: int | None = None
    at: int = 0
    """Of several collections that a query reads, the one that is drawn."""

    @staticmethod
    def of_form(form: Mapping[str, str]) -> Asked:
        """From the fields of a form."""

        def text(name: str) -> str | None:
            return form.get(name) or None

        return Asked(
            form.get("sql", ""), form.get("box", ""), text("c"), text("of"), text("x"), text("y"),
            whole(form.get("only", "")), whole(form.get("at", "")) or 0,
        )  # fmt: skip

    @property
    def axes(self) -> dict[str, tuple[str | None, str | None]]:
        """As `query_map` takes them."""
        return {} if self.of is None else {self.of: (self.x, self.y)}


def whole(text: str) -> int | None:
    """A number that a page sent; None: it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


class Queries:
    """What answers a box."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes, self.desk = boxes, boxes.desk

    async def page(self, request: Request) -> Response:
        """The page that has nothing but a box."""
        given = Asked(request.query_params.get("sql", ""), Boxes.name())
        shown = await run_in_threadpool(self.explained, given)
        box = form(given, autofocus=True)
        content = [el("h1", "Query"), box, shown, reading.parts(), answer.empty()]
        return page("Query", content, at="/query", write=self.desk.write)

    async def explain(self, request: Request) -> Response:
        """What a query would do."""
        given = Asked.of_form(await fields(request))
        return fragments(await run_in_threadpool(self.explained, given))

    def explained(self, given: Asked) -> list[Child]:
        """The pieces that say it. A text that is no query yet leaves the map as it is."""
        box = self.boxes.get(given.box)
        with box.explaining() as wanted:
            return self._explained(given, box.client.db.maps) if wanted else []

    def _explained(self, given: Asked, maps: Maps) -> list[Child]:
        try:
            found = (
                maps.query(given.sql, given.axes, given.only) if given.sql.strip() else QueryMap("nothing")
            )
            if found.readings or given.collection is None:
                return reading.drawn(found, given.at, given.only)
            x, y = given.axes.get(given.collection, (None, None))
            return reading.plain(maps.collection(given.collection, x, y), found.kind)
        except TidegateError as error:
            return [reading.failed(error)]

    async def run(self, request: Request) -> Response:
        """Runs it."""
        given = Asked.of_form(await fields(request))
        shown = await self.answered(request, given)
        if "x-tidegate" in request.headers:
            return fragments(shown)
        content = [el("h1", "Query"), form(given), shown]  # from a browser without scripts
        return page("Query", content, at="/query", write=self.desk.write)

    async def answered(self, request: Request, given: Asked) -> Html:
        """The rows, or what went wrong."""
        box = self.boxes.get(given.box)
        watch, began = box.begin(), time.perf_counter()
        asking = asyncio.create_task(box.client.ask(given.sql, watch))
        try:
            while not asking.done():
                await asyncio.wait((asking,), timeout=LOOK_S)
                if not asking.done() and await request.is_disconnected():
                    watch.cancel()
            result: Result = asking.result()
            return await run_in_threadpool(answer.shown, result, time.perf_counter() - began)
        except TidegateError as error:
            return answer.failed(error)
        finally:
            watch.cancel()  # nobody waits for it any more
            box.end(watch)

    async def cancel(self, request: Request) -> Response:
        """Ends what runs in a box; whoever asked it is told so."""
        given = Asked.of_form(await fields(request))
        return Response(status_code=204 if self.boxes.cancel(given.box) else 404)

    async def part(self, request: Request) -> Response:
        """One part."""
        sent = await fields(request)
        given, name, number = Asked.of_form(sent), sent.get("part_of", ""), whole(sent.get("part", ""))
        maps = self.boxes.get(given.box).client.db.maps
        try:
            found = await run_in_threadpool(maps.part, name, -1 if number is None else number, given.sql)
            return fragments(reading.part(found))
        except TidegateError as error:
            return fragments(el("div", trouble(error), id="part", class_="part"))

    async def parts(self, request: Request) -> Response:
        """The parts as a table."""
        given = Asked.of_form(await fields(request))
        return fragments(await run_in_threadpool(self._parts, given))

    def _parts(self, given: Asked) -> Html:
        maps = self.boxes.get(given.box).client.db.maps
        try:
            found = (
                maps.query(given.sql, given.axes, given.only) if given.sql.strip() else QueryMap("nothing")
            )
            if found.readings:
                return reading.listed(found.readings[min(given.at, len(found.readings) - 1)].map)
            if given.collection is None:
                return el("div", id="listed")
            x, y = given.axes.get(given.collection, (None, None))
            return reading.listed(maps.collection(given.collection, x, y))
        except TidegateError as error:
            return el("div", trouble(error), id="listed")


def form(
    given: Asked,
    *,
    hint: str = "SELECT …",
    examples: Mapping[str, str] = NO_EXAMPLES,
    autofocus: bool = False,
) -> Html:
    """The box. Everything that belongs to it says so by `form="ask"`, wherever it stands on the page."""
    words: dict[str, Any] = {"type": "button", "class_": "chip"}
    chips = [el("button", name, data_fill=sql, title=sql, **words) for name, sql in examples.items()]
    lines = min(max(given.sql.count("\n") + 1, 3), 12)
    return el(
        "form",
        el("label", "SQL", for_="sql", class_="unseen"),
        el(
            "textarea", given.sql, name="sql", id="sql", rows=lines, placeholder=hint, spellcheck="false",
            autocomplete="off", autocapitalize="off", data_query=True, autofocus=autofocus,
        ),
        el("input", type="hidden", name="c", value=given.collection) if given.collection else None,
        el("input", type="hidden", name="box", value=given.box),
        el(
            "div",
            el("button", "Run", type="submit", class_="main", title="Ctrl-Enter"),
            [
                el("button", name, type="submit", formaction=f"/download?format={name.lower()}", title=f"All rows as {name}")
                for name in ("CSV", "JSON", "Parquet")
            ],
            el("button", "Cancel", type="button", data_cancel="/cancel", disabled=True, title="Escape"),
            el("span", class_="elapsed", data_elapsed=True, aria_live="off"),
            el("div", chips, class_="chips", role="group", aria_label="Examples") if chips else None,
            el("span", el("kbd", "/"), " to type, ", el("kbd", "Ctrl"), " ", el("kbd", "↵"), " to run", class_="keys"),
            class_="row",
        ),
        id="ask", class_="box", method="post", action="/run", data_ask="/explain",
    )  # fmt: skip
