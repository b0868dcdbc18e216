"""Who may come in by the web, and what leaves: asked of every request before any page.

| asked | refused with |
|---|---|
| Host is a name of this server, so that a page of somebody else whose name leads here reads nothing (DNS rebinding) | 421 |
| GET, HEAD or POST; a POST comes from a page of this server, if it comes from a browser at all (CSRF) | 405, 403 |
| the token, where there is one: `Authorization: Bearer …`, or the cookie that the login form sets | 401, or the form |
| a body of at most 1 MiB, within ten seconds | 413, 408 |
| that the page does not fail in a way that nobody foresaw | 500, and an id by which the log has the trace |

The cookie is not the token, but what only who knows it can compute; it is not shown to scripts, and not sent along by other sites.
Both are compared in constant time. `/health` is open, and to strangers says nothing but that it is well; so are `/login` and the
files of `/static`. What leaves may load nothing from elsewhere, run no script that stands in a page, and is not kept by anybody.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.boundary import internal

Failed: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]
"""Makes the answer to a request that failed."""
COOKIE = "tidegate"
BODY_BYTES = 1 << 20
BODY_SECONDS = 10.0
OPEN = ("/health", "/login")
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


def cookie_of(token: str) -> str:
    """What the cookie of whoever knows the token holds."""
    return hmac.new(token.encode(), b"the cookie of tidegate serve", hashlib.sha256).hexdigest()


def same(given: str, wanted: str) -> bool:
    """Whether two secrets are the same; how long that takes tells nothing."""
    return hmac.compare_digest(given.encode(), wanted.encode())


class Guard:
    """Stands before an application."""

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: Sequence[str], failed: Failed) -> None:
        self.app, self.token, self.failed = app, token, failed
        self.hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return  # there are no sockets here
        headers = Headers(scope=scope)
        scope["state"] = {**scope.get("state", {}), "known": self.knows(headers)}
        sending = _Sending(send, fixed=scope["path"].startswith("/static/"))
        refused = self.refused(scope, headers)
        if refused is None and scope["method"] == "POST":
            try:
                receive = await _whole(receive, headers)
            except _Refused as error:
                refused = error.response
        try:
            await (self.app if refused is None else refused)(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  # further out its message would be printed, which may hold rows
            found = internal(error)
            if sending.started:
                raise found from None  # half of an answer was sent: the connection is closed
            answer = await self.failed(Request(scope), found)
            await answer(scope, receive, sending)

    def refused(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that goes no further."""
        host = _name(headers.get("host", ""))
        if "*" not in self.hosts and host not in self.hosts:
            return PlainTextResponse("This server is not known by that name.\n", 421)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET and POST.\n", 405, {"Allow": "GET, HEAD, POST"})
        if scope["method"] == "POST" and not _own(scope, headers):
            return PlainTextResponse("This was sent by a page of another site.\n", 403)
        path = scope["path"]
        if scope["state"]["known"] or path in OPEN or path.startswith("/static/"):
            return None
        if scope["method"] != "POST" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", 303)
        return PlainTextResponse("A token is needed.\n", 401, {"WWW-Authenticate": "Bearer"})

    def knows(self, headers: Headers) -> bool:
        """Whether who asks knows the token."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and same(given.strip(), self.token):
            return True
        kept = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return same(kept, cookie_of(self.token))


def _name(host: str) -> str:
    """The name of a Host header, without its port."""
    host = host.strip().lower()
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def _own(scope: Scope, headers: Headers) -> bool:
    """Whether a POST comes from our own pages, or from no browser: those say where a POST comes from."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")  # none: a person typed or reloaded it
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


class _Refused(Exception):  # noqa: N818  # reads as what it is
    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.response = PlainTextResponse(text, status)


async def _whole(receive: Receive, headers: Headers) -> Receive:
    """The body, read whole and within bounds; then what comes after it."""
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > BODY_BYTES:
        raise _Refused("That is too long.\n", 413)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > BODY_BYTES:
                    raise _Refused("That is too long.\n", 413)
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise _Refused("That took too long to come.\n", 408) from None
    given: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return given.pop() if given else await receive()

    return again


class _Sending:
    """Sends what an application answers, with our headers."""

    def __init__(self, send: Send, *, fixed: bool) -> None:
        self.send, self.fixed, self.started = send, fixed, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers["Cache-Control"] = "no-cache" if self.fixed else "no-store"
        await self.send(message)
