"""The command `tidegate serve`: options, secrets, logs, and sources that run beside the server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tidegate.cli.logging import LogFormat, LogLevel, logs_on_stderr
from tidegate.cli.options import ArgumentError, Flag, Lake, open_lake
from tidegate.database import Database
from tidegate.errors import StoreError
from tidegate.ingest.runtime import log_progress
from tidegate.server import BoundAddress, ServerOptions
from tidegate.server import serve as run_server

Several = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=(), show_default=False)]
"""`--files /data/in /data/more`."""


def serve(
    *,
    lake: Lake = "lake",
    host: str = "127.0.0.1",
    port: int = 8080,
    web: bool = True,
    pg: int | None = None,
    write: Flag = False,
    files: Several = (),
    hosts: Several = (),
    ingest: Flag = False,
    spark: bool = True,
    token_file: Path | None = None,
    password_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
) -> None:
    """Serve the lake to browsers, Prometheus and PostgreSQL clients until Ctrl-C.

    Parameters
    ----------
    host
        The address to listen on. Beyond this machine, web pages need a token and psql a password.
    port
        The port of the web pages, /metrics and /health; 0 takes a free one.
    web
        Serve web pages.
    pg
        The port of the PostgreSQL protocol; not served without it.
    write
        Let clients change the lake; otherwise they only read.
    files
        Folders and buckets that FILES sources created by clients may read.
    hosts
        Hosts that connections created by clients may reach: db.lan:5432, *.kafka.lan, [fd00::7]:9092, /run/postgresql.
    ingest
        Also run every source in this process.
    spark
        Run sources on Spark, or with --no-spark in this process.
    token_file
        A file with the token of the web pages; otherwise TIDEGATE_TOKEN.
    password_file
        A file with the password of psql; otherwise TIDEGATE_PASSWORD.
    tls_cert
        A TLS certificate, for https and sslmode=require.
    tls_key
        The key of the certificate.
    """
    if not web and pg is None and not ingest:
        raise ArgumentError("there is nothing to serve", hint="--no-web is for --pg PORT, or --ingest")
    secrets = _read_secret(token_file, "TIDEGATE_TOKEN"), _read_secret(password_file, "TIDEGATE_PASSWORD")
    options = ServerOptions(host, port if web else None, pg, write, files, hosts, *secrets, tls_cert, tls_key)
    with (
        logs_on_stderr(log_format, log_level),
        open_lake(lake) as db,
        _run_sources(db, spark=spark) if ingest else nullcontext(),
    ):
        asyncio.run(run_server(db, options, _print_addresses))


@contextmanager
def _run_sources(db: Database, *, spark: bool) -> Iterator[None]:
    """Runs every source in the background."""
    running = db.ingest(spark=None if spark else False, progress=log_progress)
    try:
        yield
    finally:
        running.stop()


def _read_secret(file: Path | None, variable: str) -> str | None:
    """Reads a secret from a file or the environment; arguments are visible to every user of the machine."""
    if file is None:
        return os.environ.get(variable) or None
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text in UTF-8"
        raise StoreError(f"cannot read {file}: {why}") from None
    if not secret:
        raise StoreError(f"{file} is empty", hint="it must contain the secret and nothing else")
    return secret


def _print_addresses(bound: BoundAddress) -> None:
    """Prints the addresses of the server."""
    if bound.url is not None:
        sys.stdout.write(f"pages      {bound.url}\nmetrics    {bound.url}/metrics\n")
    if bound.pg is not None:
        sys.stdout.write(f"psql       psql -h {bound.host} -p {bound.pg}\n")
    sys.stdout.write("Ctrl-C stops it\n")
    sys.stdout.flush()
