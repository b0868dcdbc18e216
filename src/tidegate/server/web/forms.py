"""What forms of the pages send: `sql=SELECT+1&box=…`.

form = QueryForm.of_fields(await form_fields(request))      the fields of a query box
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request

MAX_FIELDS = 100


async def form_fields(request: Request) -> dict[str, str]:
    """Returns the first value of each field; nothing if the body is not a form."""
    body = (await request.body()).decode("utf-8", "replace")
    fields: dict[str, str] = {}
    try:
        for name, value in parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FIELDS):
            fields.setdefault(name, value)
    except ValueError:  # more than MAX_FIELDS
        return {}
    return fields


@dataclass(frozen=True)
class QueryForm:
    """The fields of a query box."""

    sql: str
    box: str
    """The id of the box: see `query/boxes.py`."""
    collection: str | None = None
    """The collection whose page the box is on."""
    of: str | None = None
    """The collection that the axes `x` and `y` were chosen for."""
    x: str | None = None
    y: str | None = None
    only: int | None = None
    """The number of the condition whose effect alone is shown; None: all of them."""
    at: int = 0
    """The number of the collection to draw, of those that the query reads."""

    @staticmethod
    def of_fields(fields: Mapping[str, str]) -> QueryForm:
        """Reads the fields of a form."""

        def text(name: str) -> str | None:
            return fields.get(name) or None

        return QueryForm(
            fields.get("sql", ""), fields.get("box", ""), text("c"), text("of"), text("x"), text("y"),
            parse_number(fields.get("only", "")), parse_number(fields.get("at", "")) or 0,
        )  # fmt: skip

    @property
    def axes(self) -> dict[str, tuple[str | None, str | None]]:
        """The chosen axes, by collection."""
        return {} if self.of is None else {self.of: (self.x, self.y)}


def parse_number(text: str) -> int | None:
    """Parses a number that a page sent; None: it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
