"""Access control: the files and hosts outside of the lake that statements may use.

    ANYWHERE                                          a program, the command line: what its user may read
    Reach(("/data/in", "s3://events/raw/"))           a server's clients: these folders and buckets, and what lies below them
    NOWHERE                                           a server without any such folder

    reach.file("/data/in/2026/*.json")                 fine
    reach.file("/data/in/../../etc/passwd")            BindError: the path is looked at as the machine would take it
    reach.option("password", "file:/etc/shadow")      BindError: a reference is followed with the server's rights

    Reach((), ("db.lan:5432", "*.kafka.lan", "[fd00::7]:9092", "/run/postgresql"))     hosts that its connections may go to
    reach.connection("kafka", {"broker": "10.0.0.1:22"})   BindError: an address is allowed as it is written, never by what it means

An entry is a name, with or without a port, an address, or the folder of a socket; `*.` before a name stands for whatever is below
it. What is compared is what was written: nothing is resolved, so 127.1 and 0x7f000001 are not 127.0.0.1. Allowing a name means
trusting its name server, and allowing a broker means trusting it not to name others: librdkafka follows its cluster's own list.

It is checked when a statement names a file or host: what the catalog already holds was checked when it was written.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from tidegate.errors import BindError, TypeMismatch

_MAGIC = "*?["
_PATHS = ("ssl certificate authority", "ssl certificate", "ssl key")
"""Options that are the path of a file, or what would stand in it."""
_PORTS = {"http": 80, "https": 443}
_KAFKA_PORT, _POSTGRES_PORT = 9092, 5432
_AUTHORITY = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?")
"""A host and perhaps a port. Whatever else may stand there, two readers of a URL may understand differently."""
_POSTGRES_HOST = re.compile(r"/.*|[\w.:-]+")
_REGION = re.compile(r"[\w-]*")
_OF_BUCKETS = frozenset(
    {"endpoint", "region", "access key id", "secret access key", "session token", "virtual hosted style",
     "virtual hosted style request", "allow http", "skip signature", "aws connection", "settle", "settle ms"}
)  # fmt: skip
"""Options of a bucket that clients may give. Others of obstore's name more hosts, or files with credentials."""


@dataclass(frozen=True)
class Reach:
    """Which files and hosts statements may use: `db.session(Reach(files=("/data/in",)))`; None: any."""

    files: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None
    """Where connections may go. None: none, unless files may be anywhere."""

    def __post_init__(self) -> None:
        for name, values in (("files", self.files), ("hosts", self.hosts)):
            if isinstance(values, str):  # its characters would be folders, "/" among them
                raise TypeMismatch(f"{name} of a Reach must be a tuple of texts, and is a text")

    def file(self, pattern: str) -> None:
        """Raises if a path, pattern or URL may name a file that is outside."""
        if self.files is None or any(_below(pattern, allowed) for allowed in self.files):
            return
        shown = ", ".join(self.files) or "none"
        raise BindError(
            "this server does not read files there",
            hint=f"files that it reads: {shown}; `tidegate serve --files DIR` allows more",
        )

    def option(self, name: str, value: object) -> None:
        """Raises if an option would make the server read its files or variables, or run a program.

        SETTINGS go to librdkafka, among whose settings are a plug-in to load and a command to run.
        """
        if self.files is None or not isinstance(value, str | list | tuple):
            return
        if isinstance(value, list | tuple):
            for one in value:
                self.option(name, one)
        refers = isinstance(value, str) and value.partition(":")[0] in ("env", "file")
        is_path = name in _PATHS and isinstance(value, str) and not value.lstrip().startswith("-----BEGIN")
        if refers or is_path or name == "settings":
            raise BindError(
                f"{name.upper()} would use a file, variable or program of the server, which its clients cannot",
                hint="create the connection on the machine itself: tidegate sql",
            )

    def connection(self, kind: str, options: Mapping[str, Any]) -> None:
        """Raises if a connection of these options may go to a host that is not allowed."""
        if self.files is None:
            return
        match kind:
            case "kafka":
                for one in _broker_list(options.get("brokers", options.get("broker", ""))):
                    self._host(*_authority(one.rpartition("://")[2], _KAFKA_PORT))
            case "postgres":
                self._postgres(options)
            case "aws":
                self.bucket(options)
            case _:
                self.url(str(options.get("url", "")))

    def bucket(self, options: Mapping[str, Any]) -> None:
        """Raises if the options of a bucket lead elsewhere than to its cloud or an allowed host."""
        if self.files is None:
            return
        for name in options:
            if name not in _OF_BUCKETS:
                raise BindError(f"{name.upper()} is not for clients of this server", hint=_ON_THE_MACHINE)
        if not _REGION.fullmatch(str(options.get("region", ""))):  # it becomes a part of the host's name
            raise BindError("REGION is no name of a region")
        if "endpoint" in options:
            self.url(str(options["endpoint"]))

    def url(self, url: str) -> None:
        """Raises if the host of an http URL is not allowed."""
        if self.files is None:
            return
        found = urlsplit(url)
        if found.scheme not in _PORTS:
            raise BindError(f"{url} is no http:// or https:// URL")
        self._host(*_authority(found.netloc, _PORTS[found.scheme]))

    def _postgres(self, options: Mapping[str, Any]) -> None:
        """HOST may be several, as libpq has it, and each may have its own PORT."""
        hosts = str(options.get("host", "")).split(",")
        ports = str(options.get("port", _POSTGRES_PORT)).split(",")
        if len(ports) not in (1, len(hosts)):
            raise BindError("PORT is one, or one for each HOST")
        for host, port in zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True):
            self._host(host.strip(), port.strip() or str(_POSTGRES_PORT))
            if not _POSTGRES_HOST.fullmatch(host.strip()):
                raise BindError(f"{host!r} is no host")
        if any(letter in str(options.get("database", "")) for letter in "=:"):
            raise BindError("DATABASE is a name", hint="a connection string names a host, which HOST does")

    def _host(self, host: str, port: str) -> None:
        allowed = self.hosts or ()
        if any(_matches(host, port, one) for one in allowed):
            return
        shown = ", ".join(allowed) or "none"
        raise BindError(
            f"this server does not connect to {host or 'a host without a name'}, port {port}",
            hint=f"hosts that it connects to: {shown}; `tidegate serve --hosts HOST:PORT` allows more",
        )


_ON_THE_MACHINE = "create it on the machine itself: tidegate sql"
ANYWHERE = Reach()
NOWHERE = Reach(())


def _below(pattern: str, allowed: str) -> bool:
    """Whether all that a pattern can name lies below a folder or a URL."""
    scheme, is_url, _ = pattern.partition("://")
    if is_url and scheme != "file":
        below = allowed.rstrip("/") + "/"
        return pattern.startswith(below) and ".." not in pattern.split("/")
    if "://" in allowed:
        return False
    path = unquote(pattern.removeprefix("file://")) if is_url else pattern
    at = next((i for i, letter in enumerate(path) if letter in _MAGIC), len(path))
    if ".." in path[at:].split("/"):
        return False
    fixed = path if at == len(path) else path[:at].rpartition("/")[0] or "/"
    real, root = os.path.realpath(fixed), os.path.realpath(allowed)
    return os.path.commonpath((real, root)) == root


def _broker_list(value: Any) -> Iterator[str]:
    """BROKER and BROKERS: a text with commas, or a list of such."""
    for one in value if isinstance(value, list | tuple) else (value,):
        yield from (part.strip() for part in str(one).split(","))


def _authority(text: str, port: int) -> tuple[str, str]:
    """Host and port of `host`, `host:1`, `[::1]` or `[::1]:1`."""
    if not _AUTHORITY.fullmatch(text):
        raise BindError(f"{text!r} is no host", hint="a name or an address, and perhaps a port: 'host:9092'")
    found = re.search(r":(\d+)$", text)
    bare = text[: found.start()] if found and (text.count(":") == 1 or "]" in text) else text
    return bare.strip("[]"), found.group(1) if found and bare != text else str(port)


def _matches(host: str, port: str, allowed: str) -> bool:
    """Whether an entry of the list allows this host and port."""
    if allowed.startswith("/"):
        return host == allowed
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d+))?", allowed)
    name, only = (found.group(1).strip("[]"), found.group(2)) if found else (allowed, None)
    if only is not None and port.lstrip("0") != only:
        return False
    if name.startswith("*."):
        return len(host) >= len(name) and host.lower().endswith(name[1:].lower())
    return _spelled(host) == _spelled(name)


def _spelled(host: str) -> str:
    """A name in lower case; an address of six as it is written shortest."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()
