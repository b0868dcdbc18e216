"""The page `/views`: each view with its definition, its columns, and what it reads."""

from __future__ import annotations

from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tidegate.errors import TidegateError
from tidegate.server.gateway import Gateway
from tidegate.server.web.collections import collection_url
from tidegate.server.web.layout import card, error_box, page, table
from tidegate.server.web.markup import Child, Html, el
from tidegate.server.web.terms import term
from tidegate.statements.preview import CollectionPreview, ViewFacts, view_facts
from tidegate.text import format_bytes, format_count, identifier, plural

MAX_PREVIEWS = 50
"""Views whose parts are counted; of further ones only the definition is shown."""


class ViewsPage:
    """Serves `/views`."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def page(self, _: Request) -> Response:
        """Lists all views."""
        content = await run_in_threadpool(self._views)
        return page("Views", el("h1", "Views"), content, at="/views", write=self.gateway.write)

    def _views(self) -> Child:
        views = view_facts(self.gateway.db.context)
        if not views:
            return card(
                "No views",
                el("p", "A view is a query with a name: it stores nothing, and is read as a collection is."),
                el(
                    "pre", "CREATE VIEW recent AS SELECT * FROM orders WHERE mz_now() <= created_at + '1 day'"
                ),
            )
        return [
            self._view(name, facts, preview=i < MAX_PREVIEWS) for i, (name, facts) in enumerate(views.items())
        ]

    def _view(self, name: str, facts: ViewFacts, *, preview: bool) -> Html:
        sql = f"SELECT * FROM {identifier(name)} LIMIT 100"
        columns: list[list[Child]] = [
            [el("code", key), el("code", kind, class_="quiet")] for key, kind in facts.columns
        ]
        return card(
            name,
            el("pre", facts.sql, class_="definition"),
            error_box(facts.problem) if facts.problem else self._reads(name, facts, preview=preview),
            el(
                "details", el("summary", plural(len(columns), "column")),
                table(["column", "type"], columns, label=f"Columns of {name}"),
            ) if columns else None,
            id_=f"view-{name}",
            more=el("a", "Open in the query box", href=f"/query?sql={quote(sql)}"),
        )  # fmt: skip

    def _reads(self, name: str, facts: ViewFacts, *, preview: bool) -> list[Child]:
        through = [
            [", " if i else None, el("a", view, href=f"#view-{quote(view)}")]
            for i, view in enumerate(facts.views)
        ]
        readings = self._readings(name) if preview else ()
        rows: list[list[Child]] = [
            [
                el("a", one.map.collection, href=collection_url(one.map.collection)),
                f"{format_count(one.kept)} of {format_count(one.total)}",
                f"{format_bytes(one.bytes_kept)} of {format_bytes(one.bytes_total)}",
                ", ".join(condition.text for condition in one.conjuncts) or "–",
            ]
            for one in readings
        ]
        links = [
            [", " if i else None, el("a", key, href=collection_url(key))]
            for i, key in enumerate(facts.collections)
        ]
        names = ["reads", "parts", "bytes", "conditions"]
        return [
            table(
                names, rows, frozenset((1, 2)), words={"parts": "part", "conditions": "prune"}, stacked=True,
                label=f"What {name} reads",
            ) if rows else el("p", "reads ", links or "no collection"),
            el("p", "through the views ", through, class_="quiet") if through else None,
            el("p", "What pruning leaves of each collection for ", el("code", f"SELECT * FROM {identifier(name)}"), ", from ",
               term("statistics"), " alone.", class_="quiet") if rows else None,
        ]  # fmt: skip

    def _readings(self, name: str) -> tuple[CollectionPreview, ...]:
        try:
            return self.gateway.db.maps.query(f"SELECT * FROM {identifier(name)}").readings
        except TidegateError:  # such as a view that reads a table function: the links remain
            return ()
