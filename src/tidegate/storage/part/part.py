"""The description of a part: what the state of a shard records about one Parquet file."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """One part: the name of its file, counts, times, checksums and statistics."""

    name: str
    """Its object in the blob store."""
    rows: int
    size: int
    """Bytes."""
    diffs: int
    """The sum of its rows' diffs; compaction must keep it."""
    retracts: bool
    """Whether any diff is negative."""
    first: int
    """The least time of its updates."""
    last: int
    """The greatest time of its updates."""
    schema: int
    """The version of the schema that it was written with."""
    digest: str
    written: int
    """When its object was written, in ms."""
    level: int = 0
    """How often it was compacted."""
    order: tuple[int, ...] = ()
    """The columns it is sorted by."""
    expires: int | None = None
    """From this time on none of its rows is valid; None: never, or not known."""
    tail: int = 0
    """Bytes at the end of its file that say where its pages are (`page_table.py`); 0: it has no such table, and is read whole."""
    tail_digest: str = ""
    stats: bytes = field(default=b"", repr=False)
    """Encoded by `storage/stats/encode.py`; empty: nothing is known."""
    id: int = -1
    """Its number in the shard, given when it is appended."""
    deleted: bytes = field(default=b"", repr=False)
    """The positions of its deleted rows, as a bitmap (`deletions.py`), for the reader that a snapshot gives it to; never stored."""
    base: int = -1
    """The number of the state that its writer had seen before its object was written; not kept once it is appended."""
    data: bytes = field(default=b"", repr=False)
    """Its file, if the log holds it: an *inline* part of few rows, without an object in the blob store. Otherwise empty."""

    def to_json(self) -> dict[str, Any]:
        """The part as an entry of the log stores it."""
        plain = asdict(self)
        del plain["deleted"]
        plain["stats"] = base64.b85encode(self.stats).decode()
        plain["order"] = list(self.order)
        if self.data:
            plain["data"] = base64.b64encode(self.data).decode()
        else:
            del plain["data"]
        return plain

    @staticmethod
    def from_json(stored: dict[str, Any]) -> Part:
        """The part from an entry of the log; fields that a newer version added are ignored."""
        fields = {key: value for key, value in stored.items() if key in Part.__dataclass_fields__}
        fields["stats"] = base64.b85decode(fields.get("stats", ""))
        fields["order"] = tuple(fields.get("order", ()))
        fields["data"] = base64.b64decode(fields.get("data", ""))
        return Part(**fields)
