"""The next batch of a source, again and again: what is asked of upstream, and the jobs that read it.

    planning = Planning(source, shards, place, config, clock, once=True)
    while (work := planning.following()) is not None:
        descriptors = [run(job) for job in work]             here, or as tasks of Spark
        settle(source, shards, descriptors)

It holds nothing that matters: where the source stands is asked of the shards each time. What all of them have is acknowledged
before more is asked for, and at the start too: whoever was killed after a commit could not do it. With `once` it ends where
upstream stood when it began, so that a producer that never stops does not keep it for ever.
"""

from __future__ import annotations

from contextlib import ExitStack

from tidegate.clock import Clock
from tidegate.config import Config
from tidegate.ingest.definition import Source
from tidegate.ingest.made import Stored
from tidegate.ingest.pipeline import Job, jobs
from tidegate.ingest.source import Limit, Position
from tidegate.ingest.standing import Shards, Stretch, begin, following, least, reached, standings
from tidegate.shard.reader import snapshot
from tidegate.store.place import Place


class Planning:
    """Plans batches of one source."""

    def __init__(
        self, source: Source, shards: Shards, place: Place, config: Config, clock: Clock, *, once: bool
    ) -> None:
        self.source, self.shards, self.place, self.config, self.clock = source, shards, place, config, clock
        self.once = once
        self._target: Position | None = None
        self._told: Position | None = None
        self._begun = False
        self._open = ExitStack()

    def begin(self) -> None:
        """Sees to it that there is a position to begin at, and with `once` one to end at."""
        if self._begun:
            return
        begin(self.source, self.shards)
        if self.once:
            self._target = self.source.upstream.latest(least(self.source, self.shards), Limit())
        self._begun = True

    def following(self) -> list[Job] | None:
        """The jobs of the next batch; None: there is nothing to do now."""
        self.begin()
        self.close()
        self._acknowledge()
        if self._target is not None and self._ended(self._target):
            return None
        stretch = following(self.source, self.shards, self.config, self.clock.now())
        return None if stretch is None else self.jobs(stretch)

    def jobs(self, stretch: Stretch, *, as_one: bool = False) -> list[Job]:
        """The jobs of a batch. Until `close`, or the next, the old rows that they look for are kept from being deleted."""
        stored: dict[str, Stored] = {}
        if self.source.envelope == "upsert":
            from tidegate.session.stored import (
                StoredRows,  # with all of scan/, which other sources do without
            )

            for output in self.source.outputs:
                if output.shard in stretch.shards or self.source.errors in stretch.shards:
                    found = self._open.enter_context(snapshot(self.shards(output.shard)))
                    stored[output.shard] = StoredRows(found, self.place, stretch.now)
        return jobs(self.source, stretch, self.shards, self.place, self.config, stored=stored, as_one=as_one)

    def close(self) -> None:
        """The jobs are done."""
        self._open.close()

    def _acknowledge(self) -> None:
        """Tells upstream what all shards have: what it forgets then is with us."""
        at = least(self.source, self.shards)
        if at != self._told:
            self.source.upstream.acknowledge(at)
            self._told = at

    def _ended(self, target: Position) -> bool:
        found = standings(self.source, self.shards).values()
        return len({one.batch for one in found}) == 1 and all(reached(one.at, target) for one in found)
