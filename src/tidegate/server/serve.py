"""`tidegate serve`: the doors of a lake, on one loop, until it is told to end.

    serve(db, Doors(port=8080, pg=5433))       pages and metrics at http://127.0.0.1:8080, psql at port 5433

| door | who comes in |
|---|---|
| web | whoever reaches the port, on loopback; elsewhere only with the token |
| pg | the same; elsewhere only with the password (SCRAM-SHA-256) |

A door that is bound to more than loopback must have its secret: a server that anybody in the network may ask is not made by leaving
something out. Secrets come from files or the environment, never from the command line, where every user of a machine can read them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tidegate.database import Database
from tidegate.errors import StoreError, UnsupportedError
from tidegate.serve.desk import Desk


@dataclass(frozen=True)
class Doors:
    """Where a server listens, and who may come in."""

    host: str = "127.0.0.1"
    port: int | None = 8080
    """Of the pages; None: there are none, 0: one that is free."""
    pg: int | None = None
    """Of the protocol of PostgreSQL."""
    write: bool = False
    files: tuple[str, ...] = ()
    """Where clients that write may make FILES sources."""
    hosts: tuple[str, ...] = ()
    """Where connections that clients make may go."""
    token: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        if is_loopback(self.host):
            return
        if self.port is not None and not self.token:
            raise UnsupportedError(
                f"pages on {self.host} can be asked by the whole network, and there is no token",
                hint="--token-file F, or TIDEGATE_TOKEN; or leave --host away: this machine alone",
            )
        if self.pg is not None and not self.password:
            raise UnsupportedError(
                f"the PostgreSQL port on {self.host} can be asked by the whole network, and there is no password",
                hint="--password-file F, or TIDEGATE_PASSWORD; or leave --host away: this machine alone",
            )

    def tls(self) -> ssl.SSLContext | None:
        """For connections that are encrypted."""
        if self.tls_cert is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.tls_cert, self.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise StoreError(f"the certificate in {self.tls_cert} cannot be used: {error}") from None
        return context


@dataclass(frozen=True)
class Bound:
    """Where it listens now."""

    host: str
    port: int | None
    pg: int | None
    tls: bool

    @property
    def url(self) -> str | None:
        """Of the pages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return None if self.port is None else f"http{'s' if self.tls else ''}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def serve(
    db: Database, doors: Doors, ready: Callable[[Bound], None], stop: asyncio.Event | None = None
) -> None:
    """Serves until `stop`, or SIGINT or SIGTERM; `ready` is told where."""
    desk = Desk(db, write=doors.write, files=doors.files, hosts=doors.hosts)
    stop = stop or asyncio.Event()
    tls = doors.tls()
    async with AsyncExitStack() as stack:
        stack.callback(desk.close)
        port = None if doors.port is None else await _web(stack, desk, doors)
        pg = None if doors.pg is None else await _pg(stack, desk, doors, tls)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(
                RuntimeError, ValueError, NotImplementedError
            ):  # in a thread of a test there are none
                loop.add_signal_handler(number, stop.set)
        ready(Bound(doors.host, port, pg, tls is not None))
        await stop.wait()


def _check_installed() -> None:
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        raise UnsupportedError(
            "pages need starlette and uvicorn, which are not installed",
            hint="pip install 'tidegate[serve]'; or --no-web --pg 5433: psql alone",
        )


async def _web(stack: AsyncExitStack, desk: Desk, doors: Doors) -> int:
    _check_installed()
    import uvicorn

    from tidegate.serve.web.app import HOSTS, application

    class Pages(uvicorn.Server):
        """A server that leaves the signals to us."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            up.set()

    up = asyncio.Event()
    config = uvicorn.Config(
        application(
            desk, token=doors.token, hosts=(*HOSTS, doors.host) if is_loopback(doors.host) else ("*",)
        ),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        server_header=False,
        ssl_certfile=doors.tls_cert,
        ssl_keyfile=doors.tls_key,
    )
    server, listener = Pages(config), _listening(doors.host, doors.port or 0)
    task = asyncio.create_task(server.serve([listener]))

    async def ended() -> None:
        server.should_exit = True
        await task

    stack.push_async_callback(ended)
    await asyncio.wait((task, asyncio.ensure_future(up.wait())), return_when=asyncio.FIRST_COMPLETED)
    return int(listener.getsockname()[1])


async def _pg(stack: AsyncExitStack, desk: Desk, doors: Doors, tls: ssl.SSLContext | None) -> int:
    from tidegate.serve.pg.listen import PgServer

    server = PgServer(desk, host=doors.host, port=doors.pg or 0, password=doors.password, tls=tls)
    try:
        await server.start()
    except OSError as error:
        raise _taken(doors.host, doors.pg or 0, error) from None
    stack.push_async_callback(server.close)
    return server.port


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise _taken(host, port, error) from None


def _taken(host: str, port: int, error: OSError) -> StoreError:
    return StoreError(
        f"nothing can listen at {host}, port {port}: {error.strerror or error}",
        hint="--port and --pg choose others; 0 takes one that is free",
    )
