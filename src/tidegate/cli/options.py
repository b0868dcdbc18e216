"""What commands share: the options `--lake` and `--json`, flags, and opening the lake."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import tidegate
from tidegate.cli.configuration import active_config

if TYPE_CHECKING:
    from tidegate.database import Database

LAKE_VARIABLE = "TIDEGATE_LAKE"
Lake = Annotated[
    str,
    Parameter(
        ("--lake", "-l"),
        env_var=LAKE_VARIABLE,
        help="Where the lake is: a folder, or a URL such as s3://bucket/lake?metadata=postgresql://…",
    ),
]
Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
"""An option that is off unless it is given."""
Json = Annotated[bool, Parameter("--json", negative=(), show_default=False, help="Print JSON.")]


class ArgumentError(tidegate.StoreError):
    """An argument of the command line names what cannot be used; the exit code is 2."""


def open_lake(lake: str, *, make: bool = False) -> Database:
    """Opens the database; only commands with `make` create one that does not exist."""
    if not make and "://" not in lake and not Path(lake.partition("?")[0]).exists():
        raise tidegate.StoreError(
            f"there is no lake at {lake}",
            hint=f"--lake or {LAKE_VARIABLE} names it; `tidegate sql` with a CREATE TABLE creates one",
        )
    db = tidegate.open(lake, config=active_config().config)
    enable_garbage_collection()
    return db


def state_folder() -> Path:
    """Where the history and the log of Spark are kept, for this user alone."""
    home = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "tidegate"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home


def keep_spark_quiet() -> None:
    """Lets the JVM that a query may start log to a file, not between the answers on a terminal."""
    if sys.stderr.isatty():
        os.environ.setdefault("TIDEGATE_SPARK_LOG", str(state_folder() / "spark.log"))


def enable_garbage_collection() -> None:
    """Turns garbage collection on; modules imported so far are exempt from it."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
