"""What commands draw on a terminal: tables of collections, in the width that there is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from tidegate.plan.explain import size

if TYPE_CHECKING:
    from tidegate.session.status import Status


def status(found: Status, console: Console | None = None) -> None:
    """The collections of a database."""
    console = console or Console(highlight=False)
    console.print(f"{found.root or 'memory'}  ·  metadata in {found.metadata}  ·  format {found.format}")
    if not found.collections:
        console.print('no collections yet: tidegate sql "CREATE TABLE …"')
        return
    table = Table(box=box.SQUARE, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("collection", overflow="fold")
    for name in ("rows", "parts", "size", "newest", "leases"):
        table.add_column(name, justify="right")
    for name, one in found.collections.items():
        newest = ago(one.upper - 1) if one.rows else "–"
        table.add_row(name, f"{one.rows:,}", f"{one.parts:,}", size(one.bytes), newest, f"{one.leases:,}")
    console.print(table)
    _sources(found, console)
    if found.views:
        console.print(f"views: {', '.join(found.views)}")


def _sources(found: Status, console: Console) -> None:
    """What fills collections, and how it is doing."""
    if not found.sources:
        return
    table = Table(box=box.SQUARE, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("source", overflow="fold")
    table.add_column("from")
    table.add_column("state")
    for name in ("in", "kept", "errors", "newest"):
        table.add_column(name, justify="right")
    for name, one in found.sources.items():
        counts = one.collections.values()
        read = max((some.records for some in counts), default=0)
        kept = sum(some.kept for some in counts)
        newest = "–" if one.committed is None else ago(one.committed)
        table.add_row(name, one.kind, one.state, f"{read:,}", f"{kept:,}", f"{one.errors:,}", newest)
    console.print()
    console.print(table)
    for name, one in found.sources.items():
        if one.trouble:
            console.print(f"{name}: {one.trouble}", style="red")


def ago(milliseconds: int) -> str:
    """A time in words, as seen from now; times that are no dates are shown as they are."""
    seconds = time.time() - milliseconds / 1000
    if not 0 <= seconds < 100 * 365 * 86_400 or milliseconds < 10**11:
        return f"at {milliseconds}"
    for step, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= step:
            count = int(seconds // step)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
