"""The pages of a server, as one application.

    app = application(desk, token=None, hosts=("localhost", "127.0.0.1", "[::1]"))      for uvicorn, or any other

| path | |
|---|---|
| `/` | the collections and sources |
| `/c/<name>` | one collection: the map of its parts, a query box over it, columns, what came last |
| `/query` | a query box alone |
| `/explain` `/run` `/cancel` `/part` `/parts` | what a box asks (`query.py`) |
| `/download` | all rows of a query, as a file (`download.py`) |
| `/ingest` | sources as they run |
| `/health` `/metrics` | for people and programs |
| `/login` | where there is a token |

Whatever a page says comes from the `Desk`, which lets nothing be written unless it was told to; `guard.py` stands before all of it.
Pages are whole without scripts; `static/tidegate.js` only asks for pieces of them again.
"""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tidegate.errors import InternalError, TidegateError
from tidegate.serve.desk import Desk
from tidegate.serve.web.boxes import Boxes
from tidegate.serve.web.collections import Collections
from tidegate.serve.web.download import Downloads
from tidegate.serve.web.fields import fields
from tidegate.serve.web.guard import COOKIE, Guard, cookie_of, same
from tidegate.serve.web.health import Health
from tidegate.serve.web.ingest import Ingestions
from tidegate.serve.web.layout import card, page, trouble
from tidegate.serve.web.markup import el
from tidegate.serve.web.query import Queries

HOSTS = ("localhost", "127.0.0.1", "[::1]")
WRONG_S = 0.5
"""How long who gave a wrong token waits."""


def application(desk: Desk, *, token: str | None = None, hosts: tuple[str, ...] = HOSTS) -> Starlette:
    """The pages of a desk. `hosts` are the names that it may be asked by; `*` is any."""
    boxes = Boxes(desk)
    collections, queries, ingestions, health = (
        Collections(boxes),
        Queries(boxes),
        Ingestions(desk),
        Health(desk),
    )
    login = Login(token)
    routes = [
        Route("/", collections.index),
        Route("/c/{name:path}", collections.one),
        Route("/query", queries.page),
        Route("/explain", queries.explain, methods=["POST"]),
        Route("/run", queries.run, methods=["POST"]),
        Route("/cancel", queries.cancel, methods=["POST"]),
        Route("/download", Downloads(boxes).download, methods=["POST"]),
        Route("/part", queries.part, methods=["POST"]),
        Route("/parts", queries.parts, methods=["POST"]),
        Route("/ingest", ingestions.page),
        Route("/ingest/live", ingestions.live),
        Route("/health", health.health),
        Route("/metrics", health.metrics),
        Route("/login", login.page, methods=["GET", "POST"]),
        Mount("/static", StaticFiles(directory=str(files("tidegate.serve.web") / "static"))),
    ]
    handlers: dict[Any, Any] = {404: _nowhere, TidegateError: _failed}
    guard = Middleware(Guard, token=token, hosts=hosts, failed=_failed)
    return Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)


async def _nowhere(request: Request, error: Exception) -> Response:
    said = el("p", "There is no such page. ", el("a", "All collections", href="/"))
    return page("Not found", card("Not found", said), status=404)


async def _failed(request: Request, error: Exception) -> Response:
    """A page that says what went wrong; a script is told in plain text."""
    assert isinstance(error, TidegateError)
    status = 500 if isinstance(error, InternalError) else 503
    if "x-tidegate" in request.headers:
        return PlainTextResponse(str(error), status)
    return page("Failed", el("h1", "That did not work"), trouble(error), status=status)


class Login:
    """The form that asks for the token."""

    def __init__(self, token: str | None) -> None:
        self.token = token

    async def page(self, request: Request) -> Response:
        """The form, and what it sends."""
        if self.token is None:
            return RedirectResponse("/", 303)
        if request.method == "GET":
            return self._form(None)
        given = (await fields(request)).get("token", "")
        if not same(given, self.token):
            await asyncio.sleep(WRONG_S)
            return self._form("That is not the token.")
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, cookie_of(self.token), httponly=True, samesite="strict", secure=secure)
        return answer

    def _form(self, wrong: str | None) -> Response:
        fields = el(
            "form",
            el("label", "Token", for_="token"),
            el("input", type="text", name="user", value="tidegate", autocomplete="username", hidden=True),
            el("input", type="password", name="token", id="token", autocomplete="current-password", autofocus=True),
            el("div", wrong, class_="trouble", role="alert") if wrong else None,
            el("button", "Come in", type="submit", class_="main"),
            el("p", "Whoever started the server has it: TIDEGATE_TOKEN, or the file that --token-file names.", class_="quiet"),
            method="post",
            action="/login",
            class_="login",
        )  # fmt: skip
        return page("Token", card("Tidegate", fields), known=False, status=401 if wrong else 200)
