"""`tidegate`: the command line. Every command is a few lines over the same API that programs use.

    tidegate sql "SELECT * FROM orders LIMIT 10"        one statement, or several
    tidegate sql -f report.sql --format csv             a file;  tidegate sql < report.sql  does the same
    tidegate sql                                        a prompt, with history and completion
    tidegate ingest orders_30d --once                   runs sources
    tidegate status --json

The lake is `--lake`, else what TIDEGATE_LAKE says, else the folder `lake`.

| exit code | |
|---|---|
| 0 | done |
| 1 | a statement or command failed; stderr says why, with `--json` as one JSON object |
| 2 | the command line itself is wrong |
| 130 | Ctrl-C |
"""

from __future__ import annotations

import dataclasses
import gc
import json as jsons
import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter

import tidegate
from tidegate.boundary import internal, trace
from tidegate.serve import maintenance
from tidegate.serve.options import Json, Lake, opened, settle_garbage
from tidegate.serve.output import Format, show

if TYPE_CHECKING:
    from tidegate.database import Database
    from tidegate.session.ingest_progress import Progress

app = App(
    name="tidegate",
    help="Time-varying collections as Parquet parts; reads only what can matter.",
    version=tidegate.__version__,
    help_format="markdown",
)


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        app(given, exit_on_error=False, print_error=True, result_action="return_value")
    except CycloptsError:
        return 2
    except tidegate.TidegateError as error:
        _tell(error, json="--json" in given or "json" in given)
        return 1
    except BrokenPipeError:  # `tidegate sql … | head`: whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  # a fault of the command itself
        found = internal(error)
        found.__cause__ = error
        _tell(found, json="--json" in given or "json" in given)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    return 0


def run() -> NoReturn:
    """The program `tidegate`. What it imports stays: looking through it for garbage would be a tenth of a cold start."""
    gc.disable()
    sys.exit(main())


def _tell(error: tidegate.TidegateError, *, json: bool) -> None:
    """An error, for people or for programs; of a fault of ours also where, as there is no log to look into."""
    if isinstance(error, tidegate.InternalError) and error.__cause__ is not None:
        sys.stderr.write(f"{trace(error.__cause__)}\n")
    if not json:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return
    told = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    if error.position is not None:
        told |= {"line": error.line, "column": error.column}  # type: ignore[dict-item]  # numbers beside texts
    sys.stderr.write(jsons.dumps(told) + "\n")


@app.command
def sql(
    text: str | None = None,
    *,
    lake: Lake = "lake",
    file: Annotated[Path | None, Parameter(("--file", "-f"))] = None,
    format: Format = "table",  # noqa: A002  # the flag's name
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    as_of: int | None = None,
    timing: bool = False,
    json: Json = False,
) -> None:
    """Runs SQL: a text, a file, what comes on stdin; or without any of these a prompt.

    ```
    tidegate sql "CREATE TABLE t (id int8, at timestamptz)"
    tidegate sql "SELECT * FROM t WHERE mz_now() <= at + '30 days' LIMIT 10"
    tidegate sql "SELECT * FROM t" --format parquet -o t.parquet
    tidegate sql -f report.sql --json
    ```

    Parameters
    ----------
    text
        One statement, or several with semicolons between. All of them run; each result is printed. Before a text that
        begins with a comment, write `--`: tidegate sql -- "-- all orders…".
    file
        A file of statements.
    format
        How results are printed.
    output
        A file for the result, instead of the screen. Parquet needs one. It is replaced when all of it is written, and stays as it
        was if anything fails.
    as_of
        The time to read at, in milliseconds since 1970; for queries alone.
    timing
        Print how long each statement took.
    """
    form: Format = "json" if json else format
    if form == "parquet" and output is None:
        raise tidegate.UnsupportedError(
            "Parquet is not for the screen", hint="-o result.parquet says where to"
        )
    if text is None and file is None and sys.stdin.isatty():
        from tidegate.serve.repl import repl

        with opened(lake, make=True) as db:
            repl(db, form)
        return
    given = text if text is not None else file.read_text() if file is not None else sys.stdin.read()
    with opened(lake, make=True) as db:
        _run(db, given, form, output, as_of, timing=timing)


def _run(
    db: Database, given: str, form: Format, output: Path | None, as_of: int | None, *, timing: bool
) -> None:
    """Runs statements, and prints each result as it is there."""
    from tidegate.sql.lex import pieces

    if output is None:
        for one in pieces(given):
            began = time.perf_counter()
            result = db.sql(one, as_of=as_of)
            show(result, form, began=began if timing else None)
        return
    from tidegate.serve.export import parquet, replacing

    with replacing(output) as temporary, ExitStack() as stack:
        out, saved = None, False
        if form != "parquet":
            out = stack.enter_context(temporary.open("w", encoding="utf-8", newline=""))
        for one in pieces(given):
            result = db.sql(one, as_of=as_of)
            if not result.names:
                show(result, form)
            elif out is not None:
                show(result, "csv" if form == "table" else form, out)
            elif saved:
                raise tidegate.UnsupportedError(
                    f"{output} holds the rows of one statement, and there are more", hint="give each a file"
                )
            else:
                parquet(result, temporary)
                saved = True


@app.command
def explain(
    query: str, *, lake: Lake = "lake", analyze: bool = False, pushdown: bool = False, json: Json = False
) -> None:
    """Says how a query would be answered, and why each part that is read must be.

    ```
    tidegate explain "SELECT id FROM t WHERE at > '2026-01-01'"
    tidegate explain --pushdown "SELECT …"    each condition: can it leave out parts, and if not, why
    tidegate explain --analyze "SELECT …"     runs it: rows, bytes and time of each stage
    ```
    """
    words = "FILTER PUSHDOWN " if pushdown else "ANALYZE " if analyze else ""
    with opened(lake) as db:
        found = db.sql(f"EXPLAIN {words}{query}")
        if json:
            show(found, "json")
        else:
            sys.stdout.write(found.text() + "\n")


@app.command
def ingest(
    *names: str,
    lake: Lake = "lake",
    once: bool = False,
    spark: bool = True,
    json: Json = False,
) -> None:
    """Runs sources: those that are named, or all of them; until Ctrl-C, or with `--once` until upstream has nothing new.

    ```
    tidegate ingest                         every source
    tidegate ingest orders_30d --once
    tidegate ingest orders_30d --no-spark   in this process: for small sources, and where there is no Java
    ```

    Parameters
    ----------
    once
        Ingest what there is now, and end.
    spark
        Read on Spark, on all cores of this machine or wherever spark-defaults.conf says.
    json
        Print how it is doing as JSON lines, for programs. Else there is a bar on a terminal.
    """

    def told(now: Progress) -> None:
        sys.stdout.write(now.json() + "\n")
        sys.stdout.flush()

    with opened(lake) as db:
        running = db.ingest(
            names or None, once=once, spark=None if spark else False, progress=told if json else None
        )
        try:
            running.wait()
        finally:
            running.stop()
        if not json:
            _ended(running.progress())


def _ended(found: Mapping[str, Progress]) -> None:
    """What sources have brought, one line each."""
    for name, one in found.items():
        sys.stdout.write(
            f"{name}: {one.state}; {one.records:,} records in, {one.kept:,} kept, {one.filtered:,} filtered, "
            f"{one.expired:,} expired, {one.bad:,} bad; {one.parts:,} parts in {one.batches:,} batches\n"
        )


@app.command
def status(*, lake: Lake = "lake", json: Json = False) -> None:
    """Shows the collections: parts, rows, bytes, since, upper, leases. From metadata alone.

    ```
    tidegate status
    tidegate status --json | jq .collections.orders.rows
    ```
    """
    with opened(lake) as db:
        found = db.status()
    if json:
        sys.stdout.write(jsons.dumps(dataclasses.asdict(found), default=str) + "\n")
        return
    from tidegate.serve.screen import status as drawn

    drawn(found)


@app.command
def config(*, lake: Lake = "lake", json: Json = False) -> None:
    """Lists every setting: its value, and what it means. `SET name = value` changes one for a session of `tidegate sql`."""
    from tidegate.config import Config

    known, meanings = Config(), Config.meanings()
    del lake
    for name, meaning in meanings.items():
        value = getattr(known, name)
        if json:
            sys.stdout.write(jsons.dumps({"name": name, "value": value, "meaning": meaning}) + "\n")
        else:
            sys.stdout.write(f"{name} = {jsons.dumps(value)}\n    {meaning}\n")


@app.command
def demo(*, rows: int = 2_000_000, lake: Path | None = None) -> None:
    """Shows the main job: raw events through two sources on Spark into a lake, and the questions that matter.

    ```
    tidegate demo
    tidegate demo --rows 10000000 --lake demo     a larger one, and keep it
    ```

    Parameters
    ----------
    rows
        Orders; of clicks there are a fifth.
    lake
        Where to keep it; else it is in a temporary folder, and removed at the end.
    """
    from tidegate.demo import main as show_all

    settle_garbage()
    show_all(["--rows", str(rows), *(() if lake is None else ("--lake", str(lake)))])


for command in (maintenance.compact, maintenance.sweep, maintenance.repair, maintenance.adopt):
    app.command(command)
app.command(  # imported when it is asked for, as are its servers
    "tidegate.serve.serving:serve", help="Opens the lake to browsers, Prometheus and psql; until Ctrl-C."
)


if __name__ == "__main__":
    run()
