"""Prints the status of a database as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from tidegate.text import format_bytes, time_ago

if TYPE_CHECKING:
    from tidegate.statements import Status


def print_status(current: Status, console: Console | None = None) -> None:
    """Prints the collections and sources of a database."""
    console = console or Console(highlight=False)
    console.print(
        f"{current.root or 'memory'}  ·  metadata in {current.metadata}  ·  format {current.format}"
    )
    if not current.collections:
        console.print('no collections yet: create one with tidegate sql "CREATE TABLE …"')
        return
    table = Table(box=box.SQUARE, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("collection", overflow="fold")
    for name in ("rows", "parts", "size", "newest", "leases"):
        table.add_column(name, justify="right")
    for name, one in current.collections.items():
        newest = time_ago(one.upper - 1) if one.rows else "–"
        table.add_row(
            name, f"{one.rows:,}", f"{one.parts:,}", format_bytes(one.bytes), newest, f"{one.leases:,}"
        )
    console.print(table)
    _print_sources(current, console)
    if current.views:
        console.print(f"views: {', '.join(current.views)}")


def _print_sources(current: Status, console: Console) -> None:
    """Prints the sources and their counts."""
    if not current.sources:
        return
    table = Table(box=box.SQUARE, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("source", overflow="fold")
    table.add_column("from")
    table.add_column("state")
    for name in ("in", "kept", "errors", "newest"):
        table.add_column(name, justify="right")
    for name, one in current.sources.items():
        counts = one.collections.values()
        read = max((count.records for count in counts), default=0)
        kept = sum(count.kept for count in counts)
        newest = "–" if one.committed is None else time_ago(one.committed)
        table.add_row(name, one.kind, one.state, f"{read:,}", f"{kept:,}", f"{one.errors:,}", newest)
    console.print()
    console.print(table)
    for name, one in current.sources.items():
        if one.trouble:
            console.print(f"{name}: {one.trouble}", style="red")
