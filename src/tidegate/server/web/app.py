"""The web pages as one ASGI application: its routes, error pages and the login form.

    app = application(gateway, token=None, hosts=("localhost", "127.0.0.1", "[::1]"))      for uvicorn or another server

| path | |
|---|---|
| `/` | the collections and sources |
| `/c/<name>` | one collection: a query box, the map of its parts, columns, recent changes |
| `/query` | a query box |
| `/explain` `/run` `/cancel` `/part` `/parts` | requests of a query box (`query/page.py`) |
| `/download` | all rows of a query, as a file (`query/download.py`) |
| `/views` | views and what they read |
| `/ingest` | sources: rates and lag over time |
| `/maintenance` | what compaction and sweep would do; starts them, if the server allows writes |
| `/settings` | all settings; changes those of a session |
| `/glossary` | the words of the pages |
| `/catalog` | names that the editor completes (`query/catalog.py`) |
| `/health` `/metrics` | for people and programs |
| `/login` | if the server has a token |

Pages read the lake through the `Gateway`, which refuses writes unless the server allows them. `guard.py` checks each request first.
Pages work without scripts; `static/tidegate.js` only reloads pieces of them.
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
from tidegate.server.gateway import Gateway
from tidegate.server.web.collections import CollectionPages
from tidegate.server.web.forms import form_fields
from tidegate.server.web.glossary import GlossaryPage
from tidegate.server.web.guard import COOKIE, RequestGuard, cookie_value, secrets_equal
from tidegate.server.web.health import HealthPages
from tidegate.server.web.layout import card, error_box, page
from tidegate.server.web.maintenance import MaintenancePage
from tidegate.server.web.markup import el
from tidegate.server.web.query.boxes import QueryBoxes
from tidegate.server.web.query.catalog import CatalogPage
from tidegate.server.web.query.download import DownloadPage
from tidegate.server.web.query.page import QueryPages
from tidegate.server.web.settings import SettingsPage
from tidegate.server.web.sources.page import SourcesPage
from tidegate.server.web.views import ViewsPage

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
WRONG_TOKEN_DELAY_SECONDS = 0.5
"""How long the answer to a wrong token is delayed."""


def application(
    gateway: Gateway, *, token: str | None = None, hosts: tuple[str, ...] = LOOPBACK_HOSTS
) -> Starlette:
    """Builds the application. `hosts` are the Host headers that it accepts; `*` accepts any."""
    boxes = QueryBoxes(gateway)
    collections, queries, health = CollectionPages(boxes), QueryPages(boxes), HealthPages(gateway)
    login = Login(token)
    routes = [
        Route("/", collections.index),
        Route("/c/{name:path}", collections.collection),
        Route("/query", queries.page),
        Route("/explain", queries.explain, methods=["POST"]),
        Route("/run", queries.run, methods=["POST"]),
        Route("/cancel", queries.cancel, methods=["POST"]),
        Route("/catalog", CatalogPage(gateway).catalog),
        Route("/download", DownloadPage(boxes).download, methods=["POST"]),
        Route("/part", queries.part, methods=["POST"]),
        Route("/parts", queries.parts, methods=["POST"]),
        Route("/views", ViewsPage(gateway).page),
        Route("/ingest", SourcesPage(gateway).page),
        Route("/maintenance", MaintenancePage(gateway).page, methods=["GET", "POST"]),
        Route("/settings", SettingsPage(boxes).page, methods=["GET", "POST"]),
        Route("/glossary", GlossaryPage(gateway).page),
        Route("/health", health.health),
        Route("/metrics", health.metrics),
        Route("/login", login.page, methods=["GET", "POST"]),
        Mount("/static", StaticFiles(directory=str(files("tidegate.server.web") / "static"))),
    ]
    handlers: dict[Any, Any] = {404: _not_found_page, TidegateError: _error_page}
    guard = Middleware(RequestGuard, token=token, hosts=hosts, failed=_error_page)
    return Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)


async def _not_found_page(request: Request, error: Exception) -> Response:
    message = el("p", "This page does not exist. ", el("a", "All collections", href="/"))
    return page("Not found", card("Not found", message), status=404)


async def _error_page(request: Request, error: Exception) -> Response:
    """Shows an error: as a page, or to a script as plain text."""
    assert isinstance(error, TidegateError)
    status = 500 if isinstance(error, InternalError) else 503
    if "x-tidegate" in request.headers:
        return PlainTextResponse(str(error), status)
    return page("Error", el("h1", "Error"), error_box(error), status=status)


class Login:
    """The form that asks for the token."""

    def __init__(self, token: str | None) -> None:
        self.token = token

    async def page(self, request: Request) -> Response:
        """Shows the form, or checks the token that it sends."""
        if self.token is None:
            return RedirectResponse("/", 303)
        if request.method == "GET":
            return self._form(None)
        token = (await form_fields(request)).get("token", "")
        if not secrets_equal(token, self.token):
            await asyncio.sleep(WRONG_TOKEN_DELAY_SECONDS)
            return self._form("Wrong token.")
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, cookie_value(self.token), httponly=True, samesite="strict", secure=secure)
        return answer

    def _form(self, wrong: str | None) -> Response:
        form = el(
            "form",
            el("label", "Token", for_="token"),
            el("input", type="text", name="user", value="tidegate", autocomplete="username", hidden=True),
            el("input", type="password", name="token", id="token", autocomplete="current-password", autofocus=True),
            el("div", wrong, class_="trouble", role="alert") if wrong else None,
            el("button", "Log in", type="submit", class_="main"),
            el("p", "The token is in TIDEGATE_TOKEN or --token-file of the server.", class_="quiet"),
            method="post",
            action="/login",
            class_="login",
        )  # fmt: skip
        return page("Log in", card("Tidegate", form), known=False, status=401 if wrong else 200)
