"""The commands that look after a lake: compact, sweep, repair, adopt."""

from __future__ import annotations

import dataclasses
import json as jsons
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import tidegate
from tidegate.serve.options import Json, Lake, opened


def compact(*names: str, lake: Lake = "lake", full: bool = False, json: Json = False) -> None:
    """Merges small parts of collections, and forgets times that their retention no longer keeps.

    ```
    tidegate compact            every collection
    tidegate compact orders --full
    ```
    """
    with opened(lake) as db:
        _each(
            names or tuple(db.status().collections),
            lambda name: db.compact(name, full=full),
            "compacted",
            json,
        )


def sweep(*, lake: Lake = "lake", json: Json = False) -> None:
    """Deletes objects that nothing refers to any more: left by killed writers, and by compaction."""
    with opened(lake) as db:
        _each(("lake",), lambda _: db.sweep(), "swept", json)


def repair(*names: str, to: int | None = None, lake: Lake = "lake", json: Json = False) -> None:
    """Gives rows that were written with a time far ahead of the clock a time of now, or `--to` another, in ms.

    ```
    tidegate repair orders
    ```
    """
    with opened(lake) as db:
        _each(names, lambda name: db.repair(name, to), "repaired", json)


def adopt(
    *,
    how: Annotated[Literal["moved", "alias", "copy"], Parameter("--as", help="What became of it.")],
    lake: Lake = "lake",
) -> None:
    """Opens the way to a lake with metadata in PostgreSQL that is not where it was.

    ```
    tidegate adopt --as moved       it was moved or restored here, and is refused where it was
    tidegate adopt --as alias       this is another name of the same place, such as another mount point
    tidegate adopt --as copy        it is a copy, and becomes a lake of its own
    ```
    """
    tidegate.adopt(lake, how)
    sys.stdout.write(f"adopted as {how}\n")


def _each(names: tuple[str, ...], work: Callable[[str], Any], verb: str, json: bool) -> None:
    """Does it to each, and tells what was done."""
    for name in names:
        done = dataclasses.asdict(work(name))
        if json:
            sys.stdout.write(jsons.dumps({"name": name, **done}, default=str) + "\n")
        else:
            told = ", ".join(f"{value:,} {key}" for key, value in done.items() if isinstance(value, int))
            sys.stdout.write(f"{verb} {name}: {told}\n")
