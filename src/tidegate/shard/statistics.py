"""What is noted of a part when it is written: statistics of its columns, trimmed and encoded (`stats/summary.py`).

    shard.describe = describing(machine, config)

The option `keep_statistics` of a shard names what is kept whatever it costs: `[[4, "ts"]]` is `payload.ts`, by the column's id. So
are the hidden columns that say when rows begin and end (`validity.py`): every read asks them.
With `stats_collection` off nothing is noted, and the part is always read.
"""

from __future__ import annotations

import pyarrow as pa

from tidegate.config import Config
from tidegate.shard.machine import Machine
from tidegate.shard.schema import Schema
from tidegate.shard.validity import OPTION
from tidegate.shard.writer import Describe, undescribed
from tidegate.stats.collect import Column
from tidegate.stats.names import Place
from tidegate.stats.summary import Summary, summarise

KEEP = "keep_statistics"


def describing(machine: Machine, config: Config) -> Describe:
    """What describes the parts of a shard."""
    if not config.stats_collection:
        return undescribed

    def describe(schema: Schema, columns: list[pa.Array]) -> Summary:
        options = machine.known().options
        keep = _kept(schema, [*options.get(KEEP, ()), *([id_] for id_ in options.get(OPTION, ()))])
        given = [
            Column(c.id, c.name, c.type, values) for c, values in zip(schema.columns, columns, strict=True)
        ]
        return summarise(given, len(columns[0]), keep, config.stats_budget)

    return describe


def _kept(schema: Schema, paths: list[list[object]]) -> frozenset[Place]:
    """The places that the option names, by the columns' present names."""
    names = {column.id: column.name for column in schema.columns}
    return frozenset(
        (names[id_], *(str(step) for step in steps))
        for id_, *steps in paths
        if isinstance(id_, int) and id_ in names
    )
