"""Maintenance of a collection, here or by a crew that somebody hands in.

`storage/maintain/compact.py` merges small parts in this process; `storage/maintain/distribute.py` does more, and anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.context import Context
from tidegate.errors import BindError
from tidegate.progress import Report
from tidegate.storage.maintain import (
    Learnt,
    LocalTaskRunner,
    Reclustered,
    TaskRunner,
    backfill_shard_statistics,
    recluster_shard,
)
from tidegate.storage.shard import State, changes, shard_options


def recluster(
    context: Context, name: str, by: Sequence[str] | None, crew: TaskRunner | None, report: Report | None
) -> Reclustered:
    """Sorts a collection by its CLUSTER BY columns, or by these, which are its CLUSTER BY from here on."""
    shard = context.collection(name)
    if by is not None:
        _check_columns(by)

        def propose(state: State) -> changes.Configure | None:
            schema = state.schema
            ids = [schema.find(column).id for column in by]
            return (
                None
                if state.options.get(shard_options.CLUSTER_BY) == ids
                else changes.Configure({shard_options.CLUSTER_BY: ids})
            )

        shard.machine.update(propose)
    return recluster_shard(crew or LocalTaskRunner(), shard, context.root.place, report=report, name=name)


def _check_columns(by: object) -> None:
    if isinstance(by, str) or not isinstance(by, Sequence) or not by:
        raise BindError("`by` is a list of columns", hint='by=["customer", "at"]')


def backfill_statistics(
    context: Context, name: str, crew: TaskRunner | None, report: Report | None
) -> Learnt:
    """Gives statistics to the parts that have none."""
    return backfill_shard_statistics(
        crew or LocalTaskRunner(), context.collection(name), context.root.place, report=report, name=name
    )
