"""Checks every request before a page is called, adds security headers, and logs requests.

| check | refused with |
|---|---|
| Host is a name of this server; another site whose DNS name points here reads nothing (DNS rebinding) | 421 |
| GET, HEAD or POST; a POST from a browser comes from a page of this server (CSRF) | 405, 403 |
| the token, if the server has one: `Authorization: Bearer …`, or the cookie that the login form sets | 401, or the form |
| a body of at most 1 MiB, within ten seconds | 413, 408 |
| an exception in a page | 500, and an id by which the log has the trace |

The cookie is not the token but an HMAC of it; scripts cannot read it, and other sites do not send it. Both are compared in constant
time. Each request has an id: the header X-Request-Id of its response, and `request` in everything that is logged meanwhile.
`/health`, `/login` and the files of `/static` need no token; without one, `/health` only says that the server is up. Pages
load nothing from other hosts, run no inline scripts, and are not cached.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.boundary import internal
from tidegate.logs import ids, new_id

Failed: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]
"""Builds the response to a request that failed."""
_LOG = logging.getLogger("tidegate.request")
COOKIE = "tidegate"
BODY_BYTES = 1 << 20
BODY_SECONDS = 10.0
PUBLIC_PATHS = ("/health", "/login")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def policy_with_nonce(nonce: str) -> str:
    """Returns the policy of a page whose scripts may add style elements with this nonce."""
    return POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")


def cookie_value(token: str) -> str:
    """Returns the value of the login cookie: an HMAC keyed by the token."""
    return hmac.new(token.encode(), b"the cookie of tidegate serve", hashlib.sha256).hexdigest()


def secrets_equal(left: str, right: str) -> bool:
    """Compares two secrets in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())


class RequestGuard:
    """ASGI middleware that checks requests."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Sequence[str], failed: Failed) -> None:
        self.app, self.token, self.failed = app, token, failed
        self.hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            return  # there are no web sockets
        request_id, began = new_id(), time.perf_counter()
        sending = _ResponseSender(send, fixed=scope["path"].startswith("/static/"), request_id=request_id)
        with ids(request=request_id):
            try:
                await self._answer(scope, receive, sending)
            finally:
                _log_request(scope, sending.status, time.perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, sending: _ResponseSender) -> None:
        headers = Headers(scope=scope)
        scope["state"] = {**scope.get("state", {}), "known": self.knows(headers)}
        refused = self.refused(scope, headers)
        if refused is None and scope["method"] == "POST":
            try:
                receive = await _read_body(receive, headers)
            except _Refused as error:
                refused = error.response
        try:
            await (self.app if refused is None else refused)(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  # the server would print its message, which may contain rows
            public = internal(error)
            if sending.started:
                raise public from None  # a part of the response was sent: the connection is closed
            response = await self.failed(Request(scope), public)
            await response(scope, receive, sending)

    def refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Returns the response to a refused request; None: it is allowed."""
        host = _name(headers.get("host", ""))
        if "*" not in self.hosts and host not in self.hosts:
            return PlainTextResponse("This server does not have that host name.\n", 421)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse(
                "Only GET, HEAD and POST are allowed.\n", 405, {"Allow": "GET, HEAD, POST"}
            )
        if scope["method"] == "POST" and not _is_same_origin(scope, headers):
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        path = scope["path"]
        if scope["state"]["known"] or path in PUBLIC_PATHS or path.startswith("/static/"):
            return None
        if scope["method"] != "POST" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", 303)
        return PlainTextResponse("A token is required.\n", 401, {"WWW-Authenticate": "Bearer"})

    def knows(self, headers: Headers) -> bool:
        """Whether a request carries the token or the cookie."""
        if self.token is None:
            return True
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and secrets_equal(token.strip(), self.token):
            return True
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return secrets_equal(cookie, cookie_value(self.token))


def _name(host: str) -> str:
    """Returns the name in a Host header, without the port."""
    host = host.strip().lower()
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def _is_same_origin(scope: Scope, headers: Headers) -> bool:
    """Whether a POST comes from a page of this server, or from no browser; browsers name the origin."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")  # none: typed or reloaded by the user
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


class _Refused(Exception):  # noqa: N818  # reads as what it is
    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.response = PlainTextResponse(text, status)


async def _read_body(receive: Receive, headers: Headers) -> Receive:
    """Reads the whole body within the limits; returns a `receive` that replays it."""
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > BODY_BYTES:
        raise _Refused("The request is too large.\n", 413)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > BODY_BYTES:
                    raise _Refused("The request is too large.\n", 413)
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise _Refused("The request took too long.\n", 408) from None
    replayed: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return replayed.pop() if replayed else await receive()

    return again


def _log_request(scope: Scope, status: int | None, seconds: float) -> None:
    """Logs a request without query string and body, which hold SQL; polling and files at DEBUG."""
    path = scope["path"]
    level = logging.DEBUG if path in ("/health", "/metrics") or path.startswith("/static/") else logging.INFO
    fields = {
        "method": scope["method"],
        "path": path,
        "status": status,
        "client": (scope.get("client") or [None])[0],
        "ms": round(1000 * seconds, 3),
    }
    _LOG.log(level, "request", extra={"tidegate": fields})


class _ResponseSender:
    """Sends the response of an application with the security headers."""

    def __init__(self, send: Send, *, fixed: bool, request_id: str) -> None:
        self.send, self.fixed, self.request_id = send, fixed, request_id
        self.status: int | None = None

    @property
    def started(self) -> bool:
        """Whether the response has begun."""
        return self.status is not None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.request_id
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers["Cache-Control"] = "no-cache" if self.fixed else "no-store"
        await self.send(message)
