"""The status of a database as text and as HTML.

lake  ·  metadata in sqlite  ·  format 1
collection │      rows │ parts │   size │ newest        │ leases
───────────┼───────────┼───────┼────────┼───────────────┼───────
orders     │ 2,000,000 │    12 │  81 MB │ 3 minutes ago │      0

If rows are deleted and still stored, a column `deleted` says how many: they are among `rows`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.query.display import Cells, table_html, table_text, text_html
from tidegate.text import format_bytes, time_ago

if TYPE_CHECKING:
    from tidegate.statements.status.status import Status

_SOURCES = ("source", "from", "state", "in", "kept", "errors", "newest")


def status_lines(status: Status, width: int = 0) -> list[str]:
    """The lines of a status; `width` 0: as wide as its tables are."""
    if not status.collections:
        return [_heading(status), _nothing()]
    lines = [_heading(status), *table_text(_collections(status), width)]
    if status.sources:
        lines += ["", *table_text(_sources(status), width), *_troubles(status)]
    if status.views:
        lines.append(f"views: {', '.join(status.views)}")
    return lines


def status_html(status: Status) -> str:
    """The same for a notebook."""
    if not status.collections:
        return text_html(f"{_heading(status)}\n{_nothing()}")
    found = table_html(_collections(status), _heading(status))
    if status.sources:
        found += table_html(_sources(status), "; ".join(_troubles(status)))
    return found + (text_html(f"views: {', '.join(status.views)}") if status.views else "")


def _heading(status: Status) -> str:
    return f"{status.root or 'memory'}  ·  metadata in {status.metadata}  ·  format {status.format}"


def _nothing() -> str:
    return 'no collections yet: create one with tidegate sql "CREATE TABLE …"'


def _troubles(status: Status) -> Iterator[str]:
    return (f"{name}: {one.trouble}" for name, one in status.sources.items() if one.trouble)


def _collections(status: Status) -> Cells:
    deleted = any(one.deleted for one in status.collections.values())
    rows = [
        [
            name,
            f"{one.rows:,}",
            *([f"{one.deleted:,}"] if deleted else []),
            f"{one.parts:,}",
            format_bytes(one.bytes),
            time_ago(one.upper - 1) if one.rows else "–",
            f"{one.leases:,}",
        ]
        for name, one in status.collections.items()
    ]
    names = ("collection", "rows", *(["deleted"] if deleted else []), "parts", "size", "newest", "leases")
    return Cells(names, (False, *[True] * (len(names) - 1)), rows)


def _sources(status: Status) -> Cells:
    rows = []
    for name, one in status.sources.items():
        counts = one.collections.values()
        read = max((count.records for count in counts), default=0)
        kept = sum(count.kept for count in counts)
        newest = "–" if one.committed is None else time_ago(one.committed)
        rows.append([name, one.kind, one.state, f"{read:,}", f"{kept:,}", f"{one.errors:,}", newest])
    return Cells(_SOURCES, (False, False, False, True, True, True, True), rows)
