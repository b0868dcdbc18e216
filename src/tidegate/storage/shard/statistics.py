"""Collects the statistics of new parts (`storage/stats/part_stats.py`).

    Shard(machine, config, statistics_collector(machine, config))

The option `keep_statistics` of a shard names statistics that are stored at any cost: `[[4, "ts"]]` is `payload.ts`, by the id of
the column. So are those of the hidden columns that bound the life of rows (`validity.py`), because every read uses them. If
`stats_collection` is off, parts get no statistics, and are always read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.config import Config
from tidegate.storage.part.schema import Schema
from tidegate.storage.shard import shard_options
from tidegate.storage.shard.machine import Machine
from tidegate.storage.shard.state import State
from tidegate.storage.stats.altered import with_added
from tidegate.storage.stats.collect import ColumnValues
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.part_stats import NO_STATS, PartStats, summarise
from tidegate.storage.stats.time_like import Place

Describe: TypeAlias = Callable[[Schema, list[pa.Array]], PartStats]
"""Computes the statistics of the columns of a part."""


def describe_nothing(_: Schema, __: list[pa.Array]) -> PartStats:
    """No statistics: the part is always read."""
    return NO_STATS


def statistics_collector(machine: Machine, config: Config) -> Describe:
    """The function that computes the statistics of new parts of a shard."""
    if not config.stats_collection:
        return describe_nothing

    def describe(schema: Schema, columns: list[pa.Array]) -> PartStats:
        options = machine.cached_state().options
        keep = _required_paths(
            schema,
            [
                *options.get(shard_options.KEEP_STATISTICS, ()),
                *([id_] for id_ in options.get(shard_options.VALIDITY, ())),
            ],
        )
        given = [
            ColumnValues(c.id, c.name, c.type, values)
            for c, values in zip(schema.columns, columns, strict=True)
        ]
        return summarise(given, len(columns[0]), keep, config.stats_budget, machine.files.counters)

    return describe


def frames_of(state: State) -> list[Frame]:
    """The statistics of all parts, for each of their tables; added columns are known."""
    added = state.schema.added
    if not added:
        return list(state.parts.frames())
    return state.parts.plans.get_or_compute(("frames", state.schema.id), lambda: _with_added(state))


def _with_added(state: State) -> list[Frame]:
    lacking = {
        one.id: [s.json["id"] for s in state.schemas if one.id not in {c.id for c in s.parsed.columns}]
        for one in state.schema.added
    }
    found = []
    for table, frame in zip(state.parts.tables(["schema"]), state.parts.frames(), strict=True):
        written = table.column("schema").to_numpy()
        found.append(
            with_added(frame, [(one, np.isin(written, lacking[one.id])) for one in state.schema.added])
        )
    return found


def _required_paths(schema: Schema, paths: list[list[object]]) -> frozenset[Place]:
    """The paths that the option names, by the present names of the columns."""
    names = {column.id: column.name for column in schema.columns}
    return frozenset(
        (names[id_], *(str(step) for step in steps))
        for id_, *steps in paths
        if isinstance(id_, int) and id_ in names
    )
