"""What the editor completes: collections with their columns, functions, settings.

    GET /catalog                    {"tables": […], "functions": […], "settings": […]}
    GET /catalog?of=orders&of=big   {"columns": {"orders": [["id", "int8"], …]}}      columns of collections that a text names

Names of collections change, so a page asks anew when its editor gets the focus; functions and settings are those of the release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidegate.config import Config, SettingScope
from tidegate.errors import TidegateError
from tidegate.expr.model import REGISTRY
from tidegate.plan import AGGREGATE_NAMES, GENERAL_AGGREGATES
from tidegate.query import Result
from tidegate.server.gateway import Gateway
from tidegate.text import identifier

MAX_TABLES = 5_000
MAX_NAMES = 20
"""Collections whose columns one request may ask for."""
_LISTS = (("SHOW TABLES", "table"), ("SHOW VIEWS", "view"), ("SHOW SOURCES", "source"))


class CatalogPage:
    """Answers `/catalog`."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def catalog(self, request: Request) -> Response:
        """Returns the names that the editor completes."""
        names = request.query_params.getlist("of")[:MAX_NAMES]
        return JSONResponse(await run_in_threadpool(self._columns if names else self._all, names))

    def _all(self, names: Sequence[str]) -> dict[str, object]:
        del names
        tables = [
            {"name": row[0], "sql": identifier(row[0]), "kind": kind}
            for query, kind in _LISTS
            for row in self._ask(query).rows()
        ]
        unique = {one["name"]: one for one in tables}
        return {
            "tables": list(unique.values())[:MAX_TABLES],
            "functions": list(_functions()),
            "settings": [
                [name, meaning]
                for name, meaning in Config.meanings().items()
                if Config.scopes()[name] is not SettingScope.DATABASE
            ],
        }

    def _columns(self, names: Sequence[str]) -> dict[str, object]:
        return {
            "columns": {name: columns for name in names if (columns := self._columns_of(name)) is not None}
        }

    def _columns_of(self, name: str) -> list[list[str]] | None:
        """Returns the names and types of the columns; None if there is no such collection."""
        try:
            rows = self._ask(f"SHOW COLUMNS FROM {identifier(name)}").rows()
        except TidegateError:
            return None
        return [[str(row[0]), str(row[2]), identifier(str(row[0]))] for row in rows]

    def _ask(self, sql: str) -> Result:
        return self.gateway.client().sql(sql)


def _functions() -> Iterator[list[str]]:
    """Yields each function that is called by name, with its signatures and the first line of its docs."""
    aggregates = sorted({*AGGREGATE_NAMES, *GENERAL_AGGREGATES})
    yield from ([name, "aggregate", ""] for name in aggregates if name.isidentifier())
    for name in REGISTRY.names():
        shown = [one for one in REGISTRY.overloads(name) if not one.hidden] if name.isidentifier() else []
        if shown and name not in aggregates:
            signatures = "; ".join(dict.fromkeys(one.signature for one in shown[:4]))
            yield [name, signatures, shown[0].doc.partition("\n")[0]]
