"""Opens the ports of a server and runs it until a signal or an event: what `tidegate serve` calls.

    await serve(db, ServerOptions(port=8080, pg=5433), ready)     web pages and metrics at http://127.0.0.1:8080, psql at port 5433

| port | who may connect |
|---|---|
| web | anyone who reaches it on loopback; on other addresses only with the token |
| PostgreSQL | likewise; on other addresses only with the password (SCRAM-SHA-256) |

A port on an address beyond loopback must have its secret: no server is open to a network because an option was left out. Secrets
come from files or the environment, never from the command line, which every user of the machine can read.
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
from tidegate.server.gateway import Gateway


@dataclass(frozen=True)
class ServerOptions:
    """Where a server listens, and what its clients may do."""

    host: str = "127.0.0.1"
    port: int | None = 8080
    """The port of the web pages; None: no web pages, 0: any free port."""
    pg: int | None = None
    """The port of the PostgreSQL protocol; None: not served, 0: any free port."""
    write: bool = False
    files: tuple[str, ...] = ()
    """Folders that FILES sources made by clients may read."""
    hosts: tuple[str, ...] = ()
    """Hosts that connections made by clients may reach."""
    token: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        if is_loopback(self.host):
            return
        if self.port is not None and not self.token:
            raise UnsupportedError(
                f"web pages on {self.host} are open to the whole network, and there is no token",
                hint="use --token-file F or TIDEGATE_TOKEN; or omit --host to serve this machine only",
            )
        if self.pg is not None and not self.password:
            raise UnsupportedError(
                f"the PostgreSQL port on {self.host} is open to the whole network, and there is no password",
                hint="use --password-file F or TIDEGATE_PASSWORD; or omit --host to serve this machine only",
            )

    def tls(self) -> ssl.SSLContext | None:
        """Loads the certificate; None: connections are not encrypted."""
        if self.tls_cert is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.tls_cert, self.tls_key)
        except (OSError, ssl.SSLError) as error:
            why = error.strerror or str(error)  # of SSL: without the place in OpenSSL's source
            raise StoreError(f"the certificate in {self.tls_cert} cannot be used: {why}") from None
        return context


@dataclass(frozen=True)
class BoundAddress:
    """The address and ports that a running server listens on."""

    host: str
    port: int | None
    pg: int | None
    tls: bool

    @property
    def url(self) -> str | None:
        """The URL of the web pages; None: there are none."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return None if self.port is None else f"http{'s' if self.tls else ''}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def serve(
    db: Database,
    options: ServerOptions,
    ready: Callable[[BoundAddress], None],
    stop: asyncio.Event | None = None,
) -> None:
    """Serves until `stop` is set or SIGINT or SIGTERM arrives; calls `ready` once the ports are open."""
    gateway = Gateway(db, write=options.write, files=options.files, hosts=options.hosts)
    stop = stop or asyncio.Event()
    tls = options.tls()
    async with AsyncExitStack() as stack:
        stack.callback(gateway.close)
        port = None if options.port is None else await _start_web(stack, gateway, options)
        pg = None if options.pg is None else await _start_postgres(stack, gateway, options, tls)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(RuntimeError, ValueError, NotImplementedError):  # a test's thread has no signals
                loop.add_signal_handler(number, stop.set)
        ready(BoundAddress(options.host, port, pg, tls is not None))
        await stop.wait()


def _check_installed(feature: str, *names: str, otherwise: str) -> None:
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"{feature} requires {' and '.join(missing)}, not installed here",
            hint=f"pip install 'tidegate[server]'; or {otherwise}",
        )


async def _start_web(stack: AsyncExitStack, gateway: Gateway, options: ServerOptions) -> int:
    _check_installed("the web server", "starlette", "uvicorn", otherwise="--no-web --pg 5433: psql only")
    import uvicorn

    from tidegate.server.web.app import LOOPBACK_HOSTS, application

    class WebServer(uvicorn.Server):
        """A server that leaves signals to `serve`."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started.set()

    started = asyncio.Event()
    hosts = (*LOOPBACK_HOSTS, options.host) if is_loopback(options.host) else ("*",)
    config = uvicorn.Config(
        application(gateway, token=options.token, hosts=hosts),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        server_header=False,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    server, listener = WebServer(config), _listen(options.host, options.port or 0)
    task = asyncio.create_task(server.serve([listener]))

    async def shut_down() -> None:
        server.should_exit = True
        await task

    stack.push_async_callback(shut_down)
    await asyncio.wait((task, asyncio.ensure_future(started.wait())), return_when=asyncio.FIRST_COMPLETED)
    return int(listener.getsockname()[1])


async def _start_postgres(
    stack: AsyncExitStack, gateway: Gateway, options: ServerOptions, tls: ssl.SSLContext | None
) -> int:
    _check_installed("the PostgreSQL port", "scramp", otherwise="omit --pg")
    from tidegate.server.postgres.listener import PostgresServer

    port = options.pg or 0
    server = PostgresServer(gateway, host=options.host, port=port, password=options.password, tls=tls)
    try:
        await server.start()
    except OSError as error:
        raise _listen_error(options.host, port, error) from None
    stack.push_async_callback(server.close)
    return server.port


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise _listen_error(host, port, error) from None


def _listen_error(host: str, port: int, error: OSError) -> StoreError:
    why = (error.strerror or str(error)).partition(" (while ")[
        0
    ]  # asyncio adds the address that is named already
    return StoreError(
        f"cannot listen on {host}, port {port}: {why}",
        hint="choose other ports with --port and --pg; 0 takes a free one",
    )
