"""The query box: shows which parts a query reads while it is typed, and its rows when it runs.

    /query        a page with a query box, and the map of the collections it reads
    /explain      while typing: which parts would be read, from metadata alone
    /run          the rows, how they were computed, and the time of each stage
    /cancel       cancels the running query
    /part         one part: its bounds, and why it is read or pruned
    /parts        the map as a table

All but the first return pieces of a page, each with the id of the element that it replaces.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import TidegateError
from tidegate.query import Result
from tidegate.server.web.forms import QueryForm, form_fields, parse_number
from tidegate.server.web.layout import error_box, fragments, page
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.part_map import view
from tidegate.server.web.query import answer
from tidegate.server.web.query.boxes import QueryBoxes
from tidegate.statements.preview import Maps, QueryMap

DISCONNECT_CHECK_SECONDS = 0.25
"""How often a running query checks whether its browser is still connected."""


class QueryPages:
    """Serves the requests of query boxes."""

    def __init__(self, boxes: QueryBoxes) -> None:
        self.boxes, self.gateway = boxes, boxes.gateway

    async def page(self, request: Request) -> Response:
        """Shows a page with a query box."""
        form = QueryForm(request.query_params.get("sql", ""), QueryBoxes.new_id())
        shown = await run_in_threadpool(self.explained, form)
        box = query_form(form, autofocus=True)
        content = [el("h1", "Query"), box, shown, view.parts_placeholder(), answer.empty_result()]
        return page("Query", content, at="/query", write=self.gateway.write)

    async def explain(self, request: Request) -> Response:
        """Returns which parts a query would read."""
        form = QueryForm.of_fields(await form_fields(request))
        return fragments(await run_in_threadpool(self.explained, form))

    def explained(self, form: QueryForm) -> list[Child]:
        """Builds the pieces of the answer; a text that is not a query yet leaves the map unchanged."""
        box = self.boxes.get(form.box)
        with box.explaining() as is_newest:
            return self._explained(form, box.client.db.maps) if is_newest else []

    def _explained(self, form: QueryForm, maps: Maps) -> list[Child]:
        try:
            query = _query_map(form, maps)
            if query.readings or form.collection is None:
                return view.query_view(query, form.at, form.only)
            x, y = form.axes.get(form.collection, (None, None))
            return view.collection_view(maps.collection(form.collection, x, y), query.kind)
        except TidegateError as error:
            return [view.failed_view(error)]

    async def run(self, request: Request) -> Response:
        """Runs a query."""
        form = QueryForm.of_fields(await form_fields(request))
        shown = await self.answered(request, form)
        if "x-tidegate" in request.headers:
            return fragments(shown)
        content = [el("h1", "Query"), query_form(form), shown]  # the browser has scripts disabled
        return page("Query", content, at="/query", write=self.gateway.write)

    async def answered(self, request: Request, form: QueryForm) -> Html:
        """Returns the rows of a query, or its error."""
        box = self.boxes.get(form.box)
        watch, began = box.begin(), time.perf_counter()
        asking = asyncio.create_task(box.client.ask(form.sql, watch))
        try:
            while not asking.done():
                await asyncio.wait((asking,), timeout=DISCONNECT_CHECK_SECONDS)
                if not asking.done() and await request.is_disconnected():
                    watch.cancel()
            result: Result = asking.result()
            return await run_in_threadpool(answer.result_card, result, time.perf_counter() - began)
        except TidegateError as error:
            return answer.failed_result(error)
        finally:
            watch.cancel()  # stops readers of rows that are not shown
            box.end(watch)

    async def cancel(self, request: Request) -> Response:
        """Cancels the query that runs in a box; 404 if none does."""
        form = QueryForm.of_fields(await form_fields(request))
        return Response(status_code=204 if self.boxes.cancel(form.box) else 404)

    async def part(self, request: Request) -> Response:
        """Describes one part."""
        fields = await form_fields(request)
        form = QueryForm.of_fields(fields)
        name, number = fields.get("part_of", ""), parse_number(fields.get("part", ""))
        maps = self.boxes.get(form.box).client.db.maps
        try:
            part = await run_in_threadpool(maps.part, name, -1 if number is None else number, form.sql)
            return fragments(view.part_details(part))
        except TidegateError as error:
            return fragments(el("div", error_box(error), id="part", class_="part"))

    async def parts(self, request: Request) -> Response:
        """Lists the parts as a table."""
        form = QueryForm.of_fields(await form_fields(request))
        return fragments(await run_in_threadpool(self._parts, form))

    def _parts(self, form: QueryForm) -> Html:
        maps = self.boxes.get(form.box).client.db.maps
        try:
            readings = _query_map(form, maps).readings
            if readings:
                return view.parts_table(readings[min(form.at, len(readings) - 1)].map)
            if form.collection is None:
                return el("div", id="listed")
            x, y = form.axes.get(form.collection, (None, None))
            return view.parts_table(maps.collection(form.collection, x, y))
        except TidegateError as error:
            return el("div", error_box(error), id="listed")


def _query_map(form: QueryForm, maps: Maps) -> QueryMap:
    return maps.query(form.sql, form.axes, form.only) if form.sql.strip() else QueryMap("nothing")


def query_form(
    form: QueryForm,
    *,
    hint: str = "SELECT …",
    examples: Mapping[str, str] | None = None,
    autofocus: bool = False,
) -> Html:
    """Builds the query box. Its fields elsewhere on the page have `form="ask"`."""
    chips = [
        el("button", name, data_fill=sql, title=sql, type="button", class_="chip")
        for name, sql in (examples or {}).items()
    ]
    lines = min(max(form.sql.count("\n") + 1, 3), 12)
    return el(
        "form",
        el("label", "SQL", for_="sql", class_="unseen"),
        el(
            "textarea", form.sql, name="sql", id="sql", rows=lines, placeholder=hint, spellcheck="false",
            autocomplete="off", autocapitalize="off", data_query=True, autofocus=autofocus,
        ),
        el("input", type="hidden", name="c", value=form.collection) if form.collection else None,
        el("input", type="hidden", name="box", value=form.box),
        el(
            "div",
            el("button", "Run", type="submit", class_="main", title="Ctrl-Enter"),
            [
                el("button", name, type="submit", formaction=f"/download?format={name.lower()}",
                title=f"Download all rows as {name}")
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
