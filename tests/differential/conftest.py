"""A private PostgreSQL cluster for the tests that are marked `postgres`: made when first asked for, gone at
the end.

Each xdist worker that runs such a test has its own (initdb takes two seconds; sharing one would serialise
them on its lock). It listens on a Unix socket in its own folder only, so that no other server is met or
disturbed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.differential.postgres import Postgres

RUN_AS = ("postgres", "nobody")
"""PostgreSQL refuses to run as root: these users are tried instead."""
SETTINGS = {
    "listen_addresses": "", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
    "autovacuum": "off",
    "timezone": "UTC", "max_connections": "10", "shared_buffers": "16MB", "jit": "off",
    "log_min_messages": "panic",
}  # fmt: skip


def binaries() -> Path | None:
    """Where initdb is, by PATH or where Debian keeps it."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parent.parent.name))
    return found[-1].parent if found else None


def _user() -> dict[str, Any]:
    """What makes a subprocess run as someone who is not root."""
    if os.getuid() != 0:
        return {}
    import pwd

    for name in RUN_AS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return {}


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A connection to a cluster of our own."""
    bin_ = binaries()
    if bin_ is None:
        pytest.skip("no initdb here: `make postgres` installs PostgreSQL where it can")
    folder = Path(tempfile.mkdtemp(prefix="tidegate-pg-"))
    who = _user()
    if "user" in who:
        os.chown(folder, who["user"], who["group"])
    data = folder / "data"

    def run(program: str, *arguments: object) -> None:
        command = [str(bin_ / program), "-D", str(data), *map(str, arguments)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        subprocess.run(command, check=True, cwd=folder, **quiet, **who)

    # C.UTF-8: text by code point, as ours, but letters beyond ASCII have an upper and a lower form.
    run("initdb", "-A", "trust", "--no-sync", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8")
    settings = [f"-c {name}={value or chr(39) * 2}" for name, value in SETTINGS.items()]
    run("pg_ctl", "-w", "-l", folder / "log", "-o", " ".join([*settings, f"-k {folder}"]), "start")
    try:
        with Postgres.connect(str(folder)) as connection:
            yield connection
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
