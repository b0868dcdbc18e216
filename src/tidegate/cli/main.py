"""The commands of `tidegate`, errors and exit codes.

    tidegate sql "SELECT * FROM orders LIMIT 10"        one statement, or several
    tidegate sql -f report.sql --format csv             a file;  tidegate sql < report.sql  does the same
    tidegate sql                                        a prompt with history and completion
    tidegate ingest orders_30d --once                   runs sources
    tidegate status --json

The lake is `--lake`, else TIDEGATE_LAKE, else what the nearest `tidegate.toml` names (`configuration.py`), else the folder `lake`.

| exit code | |
|---|---|
| 0 | success |
| 1 | a statement or command failed, and stderr has the error, with `--json` as a JSON object; `doctor` found a problem |
| 2 | the command line is wrong, a file of statements cannot be read, or the extra `cli` is missing |
| 130 | Ctrl-C |
"""

from __future__ import annotations

import dataclasses
import json as jsons
import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, CycloptsError, Parameter

import tidegate
from tidegate.boundary import internal, trace
from tidegate.cli import maintenance
from tidegate.cli.configuration import active_config, configured, file_lake
from tidegate.cli.doctor import doctor
from tidegate.cli.init import init
from tidegate.cli.logging import LogFormat, LogLevel, logs_on_stderr
from tidegate.cli.options import (
    ArgumentError,
    Flag,
    Json,
    Lake,
    enable_garbage_collection,
    keep_spark_quiet,
    open_lake,
)
from tidegate.cli.output import Format, print_result
from tidegate.cli.positions import placed_in
from tidegate.text import plural

if TYPE_CHECKING:
    from tidegate.database import Database
    from tidegate.ingest.runtime import IngestionProgress

HELP = """Stores tables and streams as Parquet files, and reads only the files that can matter to a query.

```
tidegate sql                    a prompt for SQL; it creates the lake if there is none
tidegate sql "SELECT 1"         one statement, or several
tidegate status                 what the lake holds
tidegate serve --pg 5433        web pages, and a port for psql
tidegate demo                   a tour, in a lake of its own
```
"""
app = App(
    name="tidegate",
    help=HELP,
    version=tidegate.__version__,
    help_format="markdown",
)


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    json = "--json" in arguments or "json" in arguments
    try:
        with configured(arguments) as rest:
            code = app(rest, exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return 2
    except tidegate.TidegateError as error:
        _print_error(error, json=json)
        return 2 if isinstance(error, ArgumentError) else 1
    except BrokenPipeError:  # `tidegate sql … | head`: the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  # a bug in the command
        public = internal(error)
        public.__cause__ = error
        _print_error(public, json=json)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    return code if isinstance(code, int) else 0


def _print_error(error: tidegate.TidegateError, *, json: bool) -> None:
    """Prints an error as text or JSON; of an internal error also the trace, since there is no log."""
    if isinstance(error, tidegate.InternalError) and error.__cause__ is not None:
        sys.stderr.write(f"{trace(error.__cause__)}\n")
    if not json:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return
    fields = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    if error.position is not None:
        fields |= {"line": error.line, "column": error.column}  # type: ignore[dict-item]  # numbers beside texts
    sys.stderr.write(jsons.dumps(fields) + "\n")


@app.command
def sql(
    text: str | None = None,
    *,
    lake: Lake = "lake",
    file: Annotated[Path | None, Parameter(("--file", "-f"))] = None,
    format: Format = "table",  # noqa: A002  # the flag's name
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    as_of: int | None = None,
    timing: Flag = False,
    json: Json = False,
) -> None:
    """Run SQL from an argument, a file or stdin; without any of these, open a prompt.

    ```
    tidegate sql "CREATE TABLE t (id int8, at timestamptz)"
    tidegate sql "SELECT * FROM t WHERE mz_now() <= at + '30 days' LIMIT 10"
    tidegate sql "SELECT * FROM t" --format parquet -o t.parquet
    tidegate sql -f report.sql --json
    ```

    Parameters
    ----------
    text
        One statement, or several separated by semicolons; each result is printed. Write `--` before a text that begins
        with a comment: tidegate sql -- "-- all orders…".
    file
        A file with statements.
    format
        How results are printed.
    output
        Write the result to this file instead of the screen; required for Parquet. The file is replaced once it is complete,
        and unchanged if anything fails.
    as_of
        The time to read at, in milliseconds since 1970; for queries only.
    timing
        Print how long each statement took.
    """
    keep_spark_quiet()
    form: Format = "json" if json else format
    if form == "parquet" and output is None:
        raise tidegate.UnsupportedError("Parquet needs an output file", hint="-o result.parquet")
    if text is None and file is None and sys.stdin.isatty():
        from tidegate.cli.prompt import repl

        with open_lake(lake, make=True) as db:
            repl(db, form)
        return
    statements = text if text is not None else _read_statements(file)
    with open_lake(lake, make=True) as db:
        _run_statements(db, statements, form, output, as_of, timing=timing)


def _read_statements(file: Path | None) -> str:
    """The text of a file, or of stdin."""
    try:
        return sys.stdin.read() if file is None else file.read_text(encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot read {file}: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{file or 'stdin'} is not a text in UTF-8") from None


def _run_statements(
    db: Database, text: str, form: Format, output: Path | None, as_of: int | None, *, timing: bool
) -> None:
    """Runs statements one by one, and prints each result."""
    from tidegate.sql.parse import statement_texts

    if output is None:
        for piece in statement_texts(text):
            began = time.perf_counter()
            with placed_in(text, piece.start):
                result = db.sql(piece.text, as_of=as_of)
            print_result(result, form, began=began if timing else None)
        return
    from tidegate.server import atomic_write, write_parquet

    with atomic_write(output) as temporary, ExitStack() as stack:
        out, saved = None, False
        if form != "parquet":
            out = stack.enter_context(temporary.open("w", encoding="utf-8", newline=""))
        for piece in statement_texts(text):
            with placed_in(text, piece.start):
                result = db.sql(piece.text, as_of=as_of)
            if result.is_text:
                print_result(result, form)
            elif out is not None:
                print_result(result, "csv" if form == "table" else form, out)
            elif saved:
                raise tidegate.UnsupportedError(
                    f"{output} can hold the rows of one statement only",
                    hint="write each result to its own file",
                )
            else:
                write_parquet(result, temporary)
                saved = True


@app.command
def explain(
    query: str, *, lake: Lake = "lake", analyze: Flag = False, pushdown: Flag = False, json: Json = False
) -> None:
    """Show how a query would run, and why each part is read.

    ```
    tidegate explain "SELECT id FROM t WHERE at > '2026-01-01'"
    tidegate explain --pushdown "SELECT …"    which conditions can prune parts, and why others cannot
    tidegate explain --analyze "SELECT …"     run it: rows, bytes and time of each stage
    ```

    Parameters
    ----------
    query
        The query, without the word EXPLAIN.
    analyze
        Run the query, and measure each stage.
    pushdown
        Say of each condition of WHERE whether it can prune parts, and if not, why.
    """
    keep_spark_quiet()
    words = "FILTER PUSHDOWN " if pushdown else "ANALYZE " if analyze else ""
    with open_lake(lake) as db:
        result = db.sql(f"EXPLAIN {words}{query}")
        if json:
            print_result(result, "json")
        else:
            print_result(result, "table")


@app.command
def ingest(
    *names: str,
    lake: Lake = "lake",
    once: Flag = False,
    spark: bool = True,
    json: Json = False,
    log_format: LogFormat | None = None,
    log_level: LogLevel = "info",
) -> None:
    """Run sources until Ctrl-C, or with `--once` until there is nothing new.

    ```
    tidegate ingest                         every source
    tidegate ingest orders_30d --once
    tidegate ingest orders_30d --no-spark   in this process: for small sources, or without Java
    tidegate ingest --log-format json       a record for each batch and commit on stderr
    ```

    Parameters
    ----------
    names
        Names of sources; without any, all of them.
    once
        Ingest what upstream has now, then exit.
    spark
        Read on Spark: on all cores of this machine, or as spark-defaults.conf says.
    json
        Print progress as JSON lines; otherwise a terminal shows a progress bar.
    """

    def print_progress(now: IngestionProgress) -> None:
        sys.stdout.write(now.json() + "\n")
        sys.stdout.flush()

    if log_format is None:
        keep_spark_quiet()
    with logs_on_stderr(log_format, log_level), open_lake(lake) as db:
        if not names and not db.status().sources:
            sys.stderr.write("there are no sources: CREATE SOURCE defines one (docs/sources.md)\n")
            return
        running = db.ingest(
            names or None,
            once=once,
            spark=None if spark else False,
            progress=print_progress if json else None,
        )
        try:
            running.wait()
        finally:
            running.stop()
        if not json:
            _print_summary(running.progress())


def _print_summary(progress: Mapping[str, IngestionProgress]) -> None:
    """Prints one line per source: records, rows kept, batches."""
    for name, one in progress.items():
        sys.stdout.write(
            f"{name}: {one.state}; {plural(one.records, 'record')} in, {one.kept:,} kept, {one.filtered:,} filtered, "
            f"{one.expired:,} expired, {one.bad:,} bad; {plural(one.parts, 'part')} in "
            f"{one.batches:,} {'batch' if one.batches == 1 else 'batches'}\n"
        )


@app.command
def status(*, lake: Lake = "lake", json: Json = False) -> None:
    """Show collections and sources, from metadata alone.

    ```
    tidegate status
    tidegate status --json | jq .collections.orders.rows
    ```
    """
    with open_lake(lake) as db:
        current = db.status()
    if json:
        sys.stdout.write(jsons.dumps(dataclasses.asdict(current), default=str) + "\n")
        return
    from tidegate.query.display import terminal_width

    sys.stdout.write(current.text(terminal_width()) + "\n")


@app.command
def config(*, lake: Lake = "lake", json: Json = False) -> None:
    """List every setting with its default and meaning; `SET name = value` changes one in a session.

    ```
    tidegate config
    tidegate --set part_bytes=64000000 config --json
    ```
    """
    from tidegate.config import Config

    loaded, meanings = active_config(), Config.meanings()
    del lake
    for name, meaning in meanings.items():
        value, origin = getattr(loaded.config, name), loaded.origins.get(name, "default")
        if json:
            line = {"name": name, "value": value, "meaning": meaning, "from": origin}
            sys.stdout.write(jsons.dumps(line) + "\n")
        else:
            source = "" if origin == "default" else f"    # {origin}"
            sys.stdout.write(f"{name} = {jsons.dumps(value)}{source}\n    {meaning}\n")


@app.command
def demo(*, rows: int = 2_000_000, lake: Path | None = None) -> None:
    """Run a demonstration: ingest raw events on Spark through two sources, and query them.

    ```
    tidegate demo
    tidegate demo --rows 10000000 --lake demo     larger, and kept
    ```

    Parameters
    ----------
    rows
        Number of orders; there are a fifth as many clicks.
    lake
        Where to keep the lake; otherwise it is in a temporary folder that is removed at the end.
    """
    from tidegate.cli.demo.run import main as show_all

    enable_garbage_collection()
    show_all(["--rows", str(rows), *(() if lake is None else ("--lake", str(lake)))])


for command in (maintenance.compact, maintenance.sweep, maintenance.repair, maintenance.adopt, init, doctor):
    app.command(command)
app.config = (file_lake,)
app.help_epilogue = "Every command also takes `--config FILE` (else the nearest tidegate.toml counts) and `--set SETTING=VALUE`."
_SERVE = """Serve the lake to browsers, Prometheus and PostgreSQL clients until Ctrl-C.

```
tidegate serve                              web pages: collections, maps of their parts, queries
tidegate serve --pg 5433                    psql -h 127.0.0.1 -p 5433
tidegate serve --write --files /data/in     clients may write, and create FILES sources below /data/in
tidegate serve --host 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem
tidegate serve --log-format json --log-level warning
```
"""
app.command("tidegate.cli.serve:serve", help=_SERVE)  # imported on use, with the servers
