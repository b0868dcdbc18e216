"""`tidegate serve`: from the command line to a server (`server.py`), its secrets, its logs, and the sources it runs beside."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tidegate.database import Database
from tidegate.errors import StoreError
from tidegate.logs import LOG, lines_to_stderr, to_stderr
from tidegate.serve import server
from tidegate.serve.options import Lake, opened
from tidegate.serve.server import Bound, Doors
from tidegate.session.ingest_progress import logged


def serve(
    *,
    lake: Lake = "lake",
    host: str = "127.0.0.1",
    port: int = 8080,
    web: bool = True,
    pg: int | None = None,
    write: bool = False,
    files: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    hosts: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    ingest: bool = False,
    spark: bool = True,
    token_file: Path | None = None,
    password_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    log_format: Literal["lines", "json"] = "lines",
) -> None:
    """Opens the lake to browsers, to Prometheus, and to whatever speaks with PostgreSQL; until Ctrl-C.

    ```
    tidegate serve                              the collections, the map of their parts, a query box
    tidegate serve --pg 5433                    psql -h 127.0.0.1 -p 5433
    tidegate serve --write --files /data/in     clients may write, and make FILES sources below /data/in
    tidegate serve --host 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem
    ```

    Parameters
    ----------
    host
        Where it listens. Beyond this machine, pages need a token and psql a password.
    port
        Of the pages, /metrics and /health; 0 takes one that is free.
    web
        Whether there are pages.
    pg
        The port of the PostgreSQL protocol.
    write
        Let clients change the lake; else they only read.
    files
        Folders and buckets that FILES sources of clients may read.
    hosts
        Hosts that connections of clients may go to: db.lan:5432, *.kafka.lan, [fd00::7]:9092, /run/postgresql.
    ingest
        Run every source here too.
    spark
        Where sources run: on Spark, or with --no-spark in this process.
    token_file
        A file with the token that browsers must show; else TIDEGATE_TOKEN.
    password_file
        A file with the password of psql; else TIDEGATE_PASSWORD.
    tls_cert
        A certificate, for https and sslmode=require.
    tls_key
        Its key.
    log_format
        How logs are written to stderr.
    """
    secrets = _secret(token_file, "TIDEGATE_TOKEN"), _secret(password_file, "TIDEGATE_PASSWORD")
    doors = Doors(host, port if web else None, pg, write, files, hosts, *secrets, tls_cert, tls_key)
    handler = (to_stderr if log_format == "json" else lines_to_stderr)()
    try:
        with opened(lake) as db, _ingesting(db, spark=spark) if ingest else nullcontext():
            asyncio.run(server.serve(db, doors, _told))
    finally:
        LOG.removeHandler(handler)


@contextmanager
def _ingesting(db: Database, *, spark: bool) -> Iterator[None]:
    """Runs every source meanwhile."""
    running = db.ingest(spark=None if spark else False, progress=logged)
    try:
        yield
    finally:
        running.stop()


def _secret(file: Path | None, variable: str) -> str | None:
    """What a file holds, else a variable of the environment; never an argument, which every user of the machine can read."""
    if file is None:
        return os.environ.get(variable) or None
    try:
        found = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{file} cannot be read: {error}") from None
    if not found:
        raise StoreError(f"{file} is empty", hint="it holds the secret, and nothing else")
    return found


def _told(bound: Bound) -> None:
    """Says where it listens."""
    if bound.url is not None:
        sys.stdout.write(f"pages      {bound.url}\nmetrics    {bound.url}/metrics\n")
    if bound.pg is not None:
        sys.stdout.write(f"psql       psql -h {bound.host} -p {bound.pg}\n")
    sys.stdout.write("Ctrl-C ends it\n")
    sys.stdout.flush()
