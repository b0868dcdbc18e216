"""The maintenance commands: compact, sweep, repair, adopt."""

from __future__ import annotations

import dataclasses
import json as jsons
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

from cyclopts import Parameter

import tidegate
from tidegate.cli.options import Json, Lake, open_lake


def compact(*names: str, lake: Lake = "lake", full: bool = False, json: Json = False) -> None:
    """Merge small parts of collections, and drop history beyond their retention.

    ```
    tidegate compact            every collection
    tidegate compact orders --full
    ```
    """
    with open_lake(lake) as db:
        _each(
            names or tuple(db.status().collections),
            lambda name: db.compact(name, full=full),
            "compacted",
            json,
        )


def sweep(*, lake: Lake = "lake", json: Json = False) -> None:
    """Delete objects that nothing refers to: left by killed writers, or replaced by compaction."""
    with open_lake(lake) as db:
        _each(("lake",), lambda _: db.sweep(), "swept", json)


def repair(*names: str, to: int | None = None, lake: Lake = "lake", json: Json = False) -> None:
    """Move rows that were written with a time far in the future to now, or to `--to` in ms.

    ```
    tidegate repair orders
    ```
    """
    with open_lake(lake) as db:
        _each(names, lambda name: db.repair(name, to), "repaired", json)


def adopt(
    *,
    how: Annotated[Literal["moved", "alias", "copy"], Parameter("--as", help="What happened to the lake.")],
    lake: Lake = "lake",
) -> None:
    """Accept a new place of a lake whose metadata is in PostgreSQL.

    ```
    tidegate adopt --as moved       moved or restored here; refused at the old place
    tidegate adopt --as alias       another name of the same place, such as another mount point
    tidegate adopt --as copy        a copy, which becomes a lake of its own
    ```
    """
    tidegate.adopt(lake, how)
    sys.stdout.write(f"adopted as {how}\n")


def _each(names: tuple[str, ...], work: Callable[[str], Any], verb: str, json: bool) -> None:
    """Runs `work` for each name, and prints what was done."""
    for name in names:
        counts = dataclasses.asdict(work(name))
        if json:
            sys.stdout.write(jsons.dumps({"name": name, **counts}, default=str) + "\n")
        else:
            summary = ", ".join(f"{value:,} {key}" for key, value in counts.items() if isinstance(value, int))
            sys.stdout.write(f"{verb} {name}: {summary}\n")
