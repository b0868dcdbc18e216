"""What a form sent, as a browser sends it without files: `sql=SELECT+1&box=…`."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

MOST = 100


async def fields(request: Request) -> dict[str, str]:
    """The first value of each field; of a body that is no form, none."""
    body = (await request.body()).decode("utf-8", "replace")
    found: dict[str, str] = {}
    try:
        for name, value in parse_qsl(body, keep_blank_values=True, max_num_fields=MOST):
            found.setdefault(name, value)
    except ValueError:  # too many of them
        return {}
    return found
