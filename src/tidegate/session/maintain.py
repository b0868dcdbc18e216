"""Maintenance of a collection, here or by a crew that somebody hands in.

`shard/compact.py` merges small parts in this process; `shard/maintain.py` does more, and anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import BindError
from tidegate.progress import Report
from tidegate.session.lake import Lake
from tidegate.shard.change import Configure
from tidegate.shard.maintain import Crew, Here, Learnt, Reclustered, learn_by, recluster_by
from tidegate.shard.state import State
from tidegate.shard.writer import CLUSTER, schema_of


def recluster(
    lake: Lake, name: str, by: Sequence[str] | None, crew: Crew | None, report: Report | None
) -> Reclustered:
    """Sorts a collection by its CLUSTER BY columns, or by these, which are its CLUSTER BY from here on."""
    shard = lake.collection(name)
    if by is not None:
        _check_columns(by)

        def think(state: State) -> Configure | None:
            schema = schema_of(state)
            ids = [schema.find(column).id for column in by]
            return None if state.options.get(CLUSTER) == ids else Configure({CLUSTER: ids})

        shard.machine.change(think)
    return recluster_by(crew or Here(), shard, lake.root.place, report=report, name=name)


def _check_columns(by: object) -> None:
    if isinstance(by, str) or not isinstance(by, Sequence) or not by:
        raise BindError("`by` is a list of columns", hint='by=["customer", "at"]')


def backfill_statistics(lake: Lake, name: str, crew: Crew | None, report: Report | None) -> Learnt:
    """Gives statistics to the parts that have none."""
    return learn_by(crew or Here(), lake.collection(name), lake.root.place, report=report, name=name)
