"""What commands have in common: the options `--lake` and `--json`, and opening the lake."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import tidegate

if TYPE_CHECKING:
    from tidegate.database import Database

LAKE = "TIDEGATE_LAKE"
Lake = Annotated[
    str,
    Parameter(
        ("--lake", "-l"),
        env_var=LAKE,
        help="A folder, or a URL such as s3://bucket/lake?metadata=postgresql://…",
    ),
]
Json = Annotated[bool, Parameter("--json", negative=(), help="Print JSON, for programs.")]


def opened(lake: str, *, make: bool = False) -> Database:
    """The database; commands that only look do not make one by mistake."""
    if not make and "://" not in lake and not Path(lake.partition("?")[0]).exists():
        raise tidegate.StoreError(
            f"there is no lake at {lake}",
            hint=f"--lake or {LAKE} says where it is; `tidegate sql` with a CREATE TABLE makes one",
        )
    db = tidegate.open(lake)
    settle_garbage()
    return db


def settle_garbage() -> None:
    """What is to be imported is: from here on there may be garbage."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
