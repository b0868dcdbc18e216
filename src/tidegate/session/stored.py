"""The rows that a collection holds under the keys of ENVELOPE UPSERT, as they were when a batch began.

    with snapshot(shard) as pinned:                       the driver, at the position that the batch starts from
        stored = StoredRows(pinned, place, now)           pickled: the parts as a table, no lease, no log
        stored.rows(keys)                                 in a task: `key IN (…)`, by the same scan as any query

Parts and pages whose statistics hold none of the keys are not read, and of the others the key's column first (`scan/late.py`); so
a batch costs what its keys are spread over. That is least where the collection is clustered by the key, as it is by default.
Whoever made the snapshot keeps it open until the tasks are done: its lease keeps the parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.expr.build import call
from tidegate.expr.tree import Column, Literal
from tidegate.expr.types import BYTEA, array
from tidegate.ingest.definition import UPSERT_KEY
from tidegate.plan.mfp import MapFilterProject
from tidegate.scan import local
from tidegate.scan.prune import prune
from tidegate.scan.question import Question
from tidegate.scan.result import Scan
from tidegate.scan.sort import Shape
from tidegate.shard.gather import in_task, slim
from tidegate.shard.lease import Lease
from tidegate.shard.merge import Block
from tidegate.shard.parts import Parts, from_table
from tidegate.shard.reader import Snapshot
from tidegate.shard.state import State
from tidegate.store.place import Place

AT_ONCE = 100_000
"""Keys that are looked up together."""


class StoredRows:
    """The rows of a snapshot, found by key."""

    def __init__(self, snapshot: Snapshot, place: Place, now: int) -> None:
        """`now`: the batch's time; rows that have ended by then are not found, as nobody sees them."""
        self.snapshot, self.place, self.now = snapshot, place, max(now, snapshot.as_of)
        self.scan = Scan()
        """What was read so far."""

    def __reduce__(self) -> tuple[Any, ...]:
        """What travels: the state without what tasks need not know, and the parts that may hold rows."""
        state, config = slim(self.snapshot.state), self.snapshot.shard.config
        return _travelled, (
            state,
            self.snapshot.rows_of(None),
            self.place,
            config,
            self.snapshot.as_of,
            self.now,
        )

    def rows(self, keys: pa.Array) -> Block:
        """The rows under these keys, with all columns, each as often as it is there."""
        columns = self.snapshot.schema.columns
        pieces = [[pa.array([], column.type.arrow) for column in columns]]
        for begin in range(0, len(keys), AT_ONCE):
            question = self._asked(keys.slice(begin, AT_ONCE))
            found = prune(self.snapshot, question.plan, self.now, use=question.config.stats_filter)
            pieces += [list(some) for some, _ in local.stream(question, found, self.scan)]
        joined = [pa.concat_arrays(piece) for piece in zip(*pieces, strict=True)]
        return Block(joined, np.zeros(len(joined[0]), np.int64), np.ones(len(joined[0]), np.int64))

    def _asked(self, keys: pa.Array) -> Question:
        snapshot = self.snapshot
        columns, options = snapshot.schema.columns, snapshot.state.options
        place = next(i for i, column in enumerate(columns) if column.id == options[UPSERT_KEY])
        offsets = pa.array([0, len(keys)], pa.int32())
        listed = pa.ListArray.from_arrays(offsets, keys).cast(array(BYTEA).arrow)[0]
        wanted = call("in", Column(place, BYTEA), Literal(listed, array(BYTEA)))
        plan = MapFilterProject.identity([column.type for column in columns]).filter(wanted)
        if snapshot.validity is not None:
            _, lasting = snapshot.validity.conditions(snapshot.schema)
            plan = plan.filter(lasting)
        names = tuple(column.name for column in columns)
        config = snapshot.shard.config
        return Question(snapshot, plan.at(self.now).optimise(), names, Shape(), self.now, config)


def _travelled(
    state: State, parts: pa.Table, place: Place, config: Config, as_of: int, now: int
) -> StoredRows:
    """The same in another process."""
    shard = in_task(place, config, state)
    whole = replace(state, parts=Parts().add(from_table(parts)))
    return StoredRows(Snapshot(shard, Lease(shard, None, as_of, whole), as_of), place, now)
