"""The maintenance commands: compact, sweep, repair, adopt."""

from __future__ import annotations

import dataclasses
import json as jsons
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import tidegate
from tidegate.cli.options import ArgumentError, Flag, Json, Lake, open_lake
from tidegate.text import format_time, plural

if TYPE_CHECKING:
    from tidegate.storage.maintain import Compacted, Repaired, Swept


def compact(*names: str, lake: Lake = "lake", full: Flag = False, json: Json = False) -> None:
    """Merge small parts, drop expired ones, and forget history that is older than the retention.

    ```
    tidegate compact            every collection
    tidegate compact orders --full
    ```

    Parameters
    ----------
    names
        Names of tables and sources; without any, all of them.
    full
        Merge all parts, large ones too, and separate deleted rows that only AS OF shows from the others.
    """
    with open_lake(lake) as db:
        _each(
            names or tuple(db.status().collections),
            lambda name: db.compact(name, full=full),
            _compacted,
            json,
        )


def sweep(*, lake: Lake = "lake", json: Json = False) -> None:
    """Delete files that nothing refers to: those that compaction replaced, or killed writers left behind.

    ```
    tidegate sweep
    tidegate sweep --json
    ```
    """
    with open_lake(lake) as db:
        _each(("lake",), lambda _: db.sweep(), _swept, json)


def repair(*names: str, to: int | None = None, lake: Lake = "lake", json: Json = False) -> None:
    """Correct rows that were written with a time far in the future: they get the time of now, or `--to`.

    ```
    tidegate repair orders                       to now
    tidegate repair orders --to 1767225600000    to this time
    ```

    Parameters
    ----------
    names
        Names of tables and sources.
    to
        The time that the rows get, in milliseconds since 1970; otherwise now.
    """
    if not names:
        raise ArgumentError("repair needs the name of a table or source", hint="tidegate repair orders")
    with open_lake(lake) as db:
        _each(names, lambda name: db.repair(name, to), _repaired, json)


def adopt(
    *,
    how: Annotated[Literal["moved", "alias", "copy"], Parameter("--as", help="What happened to the lake.")],
    lake: Lake = "lake",
) -> None:
    """Say why a lake with its metadata in PostgreSQL is at another place than before.

    ```
    tidegate adopt --as moved       moved or restored here; refused at the old place
    tidegate adopt --as alias       another name of the same place, such as another mount point
    tidegate adopt --as copy        a copy, which becomes a lake of its own
    ```
    """
    tidegate.adopt(lake, how)
    sys.stdout.write(f"adopted as {how}\n")


def _each(names: tuple[str, ...], work: Callable[[str], Any], said: Callable[[Any], str], json: bool) -> None:
    """Runs `work` for each name, and prints what was done."""
    for name in names:
        done = work(name)
        if json:
            sys.stdout.write(jsons.dumps({"name": name, **dataclasses.asdict(done)}, default=str) + "\n")
        else:
            sys.stdout.write(f"{name}: {said(done)}\n")


def _compacted(done: Compacted) -> str:
    said = [
        done.removed and f"merged {plural(done.removed, 'part')} into {done.added:,}",
        done.expired and f"dropped {plural(done.expired, 'part')} whose rows have expired",
        done.settled and f"settled {plural(done.settled, 'deleted row')}",
        done.conflicts and f"left {plural(done.conflicts, 'merge')} to another compaction",
    ]
    summary = ", ".join(text for text in said if text) or "nothing to merge or drop"
    return summary + (f"; AS OF reaches back to {format_time(done.since)}" if done.since else "")


def _swept(done: Swept) -> str:
    said = [
        done.garbage and f"deleted {plural(done.garbage, 'replaced object')}",
        done.orphans and f"deleted {plural(done.orphans, 'object')} that writers left behind",
        done.temporary and f"deleted {plural(done.temporary, 'temporary file')}",
        done.leases and f"ended {plural(done.leases, 'lease')} of readers that are gone",
    ]
    return ", ".join(text for text in said if text) or "nothing to delete"


def _repaired(done: Repaired) -> str:
    if not done.parts:
        return "no row is ahead of the clock"
    return (
        f"moved {plural(done.parts, 'part')} from {format_time(done.upper_before - 1)}"
        f" back to {format_time(done.upper - 1)}"
    )
