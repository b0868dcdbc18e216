"""The query box: shows which parts a query reads while it is typed, and its rows when it runs.

    /query        a page with a query box, and the map of the collections it reads
    /explain      while typing: which parts would be read, from metadata alone
    /run          the result of each statement, how it was computed, and the time of each stage
    /cancel       cancels the running query
    /part         one part: its bounds, and why it is read or pruned
    /parts        the map as a table

All but the first return pieces of a page, each with the id of the element that it replaces.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import TidegateError
from tidegate.server.web.forms import QueryForm, form_fields, parse_number
from tidegate.server.web.layout import error_box, fragments, page
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.part_map import view
from tidegate.server.web.query import answer
from tidegate.server.web.query.boxes import QueryBoxes
from tidegate.server.web.query.form import query_form
from tidegate.server.web.query.run import ScriptRunner
from tidegate.statements.preview import Maps, QueryMap
from tidegate.text import identifier

DISCONNECT_CHECK_SECONDS = 0.25
"""How often a running query checks whether its browser is still connected."""
MAX_EXAMPLES = 3
_HEADING = el("h1", "Query", class_="unseen")


class QueryPages:
    """Serves the requests of query boxes."""

    def __init__(self, boxes: QueryBoxes) -> None:
        self.boxes, self.gateway = boxes, boxes.gateway

    async def page(self, request: Request) -> Response:
        """Shows a page with a query box."""
        given = request.query_params
        form = QueryForm(given.get("sql") or given.get("q", ""), QueryBoxes.new_id())
        shown = await run_in_threadpool(self.explained, form)
        box = query_form(form, examples=await run_in_threadpool(self._examples), autofocus=True, console=True)
        verdict, drawn = shown[:1], shown[1:]
        content = [_HEADING, box, verdict, answer.empty_result(), drawn, view.parts_placeholder()]
        return page("Query", content, at="/query", write=self.gateway.write)

    def _examples(self) -> dict[str, str]:
        """Returns a query of each of the first collections."""
        with suppress(TidegateError):  # a lake that cannot be read: the editor says so when a query runs
            names = [row[0] for row in self.gateway.client().sql("SHOW TABLES").rows()]
            return {name: f"SELECT * FROM {identifier(name)} LIMIT 100" for name in names[:MAX_EXAMPLES]}
        return {}

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
            return [view.failed_view(error), *self._unanswered(form, maps)]

    def _unanswered(self, form: QueryForm, maps: Maps) -> list[Child]:
        """Returns the map without a query: an error shows nothing of the query before it."""
        with suppress(TidegateError):  # the collection may have been dropped
            if form.collection is not None:
                x, y = form.axes.get(form.collection, (None, None))
                return view.collection_view(maps.collection(form.collection, x, y))[1:]
        return view.query_view(QueryMap("nothing"), 0, None)[1:]

    async def run(self, request: Request) -> Response:
        """Runs a query."""
        fields = await form_fields(request)
        form = QueryForm.of_fields(fields)
        shown = await self.answered(request, form, analyze=bool(fields.get("analyze")))
        if "x-tidegate" in request.headers:
            return fragments(shown)
        content = [_HEADING, query_form(form, console=True), shown]  # the browser has scripts disabled
        return page("Query", content, at="/query", write=self.gateway.write)

    async def answered(self, request: Request, form: QueryForm, *, analyze: bool = False) -> Html:
        """Returns the results of the statements of a text; of one that fails, its error."""
        box = self.boxes.get(form.box)
        watch = box.begin()
        runner = ScriptRunner(box.client, form.sql, watch, form.box, analyze=analyze)
        running = asyncio.create_task(runner.run())
        try:
            while not running.done():
                await asyncio.wait((running,), timeout=DISCONNECT_CHECK_SECONDS)
                if not running.done() and await request.is_disconnected():
                    watch.cancel()
            await running
            return runner.shown()
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
