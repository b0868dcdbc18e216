"""Maintenance by itself: after its commit a writer takes a small step, if one is due.

    db.append("t", rows)           the 128th small part of t: the writer merges these, and drops what has expired
    db.append("t", rows)           nothing is due

    next_step(state, config, now, small_parts_left)         which step that is: a function of the state alone
    maintain_in_steps(shard)                                takes it

So a collection of a million small commits has some dozens of small parts, and no job has to run. Of the threads of a process one at
a time maintains a shard. Two processes may merge the same parts: the first replaces them, the second discards what it wrote. A step
can be killed at any point, like `compact` and `sweep`, which remain for those who want all of it now.
"""

from __future__ import annotations

import logging
import time
from enum import StrEnum

import numpy as np

from tidegate.config import Config
from tidegate.errors import TidegateError
from tidegate.storage.maintain.compact import compact_shard
from tidegate.storage.maintain.sweep import collect_garbage
from tidegate.storage.shard.shard import Shard
from tidegate.storage.shard.state import State

MAX_STEP_BYTES = 64 << 20
"""Bytes of parts after which a writer merges no further group: the next commits go on."""
MAX_STEP_FILES = 512
"""Files that a writer deletes at once."""
_LOG = logging.getLogger("tidegate.maintenance")


class MaintenanceStep(StrEnum):
    """A small step of maintenance."""

    MERGE = "merge"
    """Merge small parts, and drop those whose rows have all ended."""
    DELETE = "delete"
    """Delete files that left the state longer ago than the grace period."""


def next_step(state: State, config: Config, now: int, small_parts_left: int) -> MaintenanceStep | None:
    """The step that a writer takes after its commit.

    `small_parts_left` is how many small parts the merge before this one left, since no neighbours were to be merged: so it is
    tried again only after as many have come as make it worthwhile. Each part is rewritten once a tier of sizes, as by `compact`.
    """
    if not config.maintenance:
        return None
    if state.parts.count >= config.maintenance_parts:
        added = small_parts(state, config) - small_parts_left
        if added >= config.maintenance_parts:
            return MaintenanceStep.MERGE
    garbage, over = state.garbage, now - config.sweep_grace_ms
    if len(garbage) >= config.maintenance_parts and garbage[config.maintenance_parts - 1].at <= over:
        return MaintenanceStep.DELETE
    return None


def small_parts(state: State, config: Config) -> int:
    """How many parts are smaller than half of a full one: compaction merges these."""
    tables = state.parts.tables(["size"])
    return sum(
        int(np.count_nonzero(table.column("size").to_numpy() < config.part_bytes / 2)) for table in tables
    )


def maintain_in_steps(shard: Shard) -> MaintenanceStep | None:
    """Takes the step that is due after a commit, unless another thread is about it; which it was.

    The rows are committed whatever becomes of it: a step that fails is logged, and due again.
    """
    step = next_step(
        shard.machine.cached_state(), shard.config, shard.clock.now(), shard.machine.small_parts_left
    )
    if step is None or not shard.machine.maintenance.acquire(blocking=False):
        return None
    began = time.perf_counter()
    try:
        if step is MaintenanceStep.MERGE:
            compact_shard(shard, max_bytes=MAX_STEP_BYTES)
            shard.machine.small_parts_left = small_parts(shard.machine.cached_state(), shard.config)
        else:
            collect_garbage(shard, MAX_STEP_FILES)
    except TidegateError as error:
        _LOG.warning("maintenance of %s: %s", shard.machine.key, error.message)
        return None
    except Exception:  # noqa: BLE001  # the commit was made: a fault of ours must not look as if it was not
        _LOG.exception("maintenance of %s", shard.machine.key)
        return None
    finally:
        shard.machine.maintenance.release()
    shard.metrics.add("maintenance_steps", step=step.value)
    fields = {"operation": step.value, "ms": round(1000 * (time.perf_counter() - began), 3)}
    _LOG.info("%s ok", step.value, extra={"tidegate": fields})
    return step
