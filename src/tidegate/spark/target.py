"""Where a DataFrame goes to, or comes from: a database, a collection in it, and settings for this one write or read.

    df.write.format("tidegate").mode("append").save("lake:orders")
    df.write.format("tidegate").mode("append").option("database", "lake").option("collection", "orders").save()

A path is cut at its last colon, since places have colons of their own:

| path | database | collection |
|---|---|---|
| `lake:orders` | `lake`, below the folder that Spark was started in | `orders` |
| `/data/lake:orders` | `/data/lake` | `orders` |
| `s3://bucket/lake?metadata=postgresql://me@db:5432/meta:orders` | all before the last colon | `orders` |
| `s3://bucket/lake` | – | refused: which collection? |

Any knob of `config.py` may be an option: `.option("part_bytes", 64 << 20)`. Whoever reads or writes through Spark means a database
that is there: a misspelled path must not make a new one, so nothing is made here.

These functions run in Python processes of Spark's, which live on from query to query: open databases are kept there, and looked at
again before each use, lest one that was deleted and made anew be taken for the old one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path

from tidegate import fork
from tidegate.clock import SystemClock
from tidegate.config import Config
from tidegate.errors import BindError, StoreError
from tidegate.session.lake import Lake
from tidegate.session.settings import changed
from tidegate.shard.root import NAME as ROOT
from tidegate.shard.root import Marker, open_root
from tidegate.store.place import Place, parse

OPTIONS = {
    "path": "<database>:<collection>",
    "database": "where the database is",
    "collection": "the name of the collection",
    "at": "the time of the rows, in ms",
    "token": "a name for this write: with the same one again, nothing happens",
    "diffColumn": "a column that says how often each row is added, or with -1 taken away",
    "sink": "a name for a stream",
    "takeover": "true: this stream goes on where another, with another checkpoint, was under the same name of `sink`",
    "as_of": "the time to read at, in ms",
    "columns": "the columns to read, with commas between them",
    "where": "a condition, in Tidegate's SQL",
}
"""Every option but the knobs of `config.py`. Spark does not tell upper from lower case in their names."""
_KNOBS = {field.name for field in fields(Config)}


@dataclass(frozen=True)
class Target:
    """A collection, as options name it."""

    place: Place
    collection: str
    config: Config

    def lake(self) -> Lake:
        """The database, opened in this process."""
        return lake_at(self.place, self.config)


def target(options: Mapping[str, str]) -> Target:
    """What the options of a read or write name."""
    _check(options)
    database, collection = _named(options)
    config = Config()
    for name in sorted(_KNOBS & {name.lower() for name in options}):
        config = changed(config, name, options[name])
    return Target(parse(database), collection, config)


def _named(options: Mapping[str, str]) -> tuple[str, str]:
    path, database, collection = (options.get(name) for name in ("path", "database", "collection"))
    if path and (database or collection):
        raise BindError(
            f"the path {path!r} and the options database and collection are given",
            hint='save("lake:t"), or both options and save()',
        )
    if path:
        database, _, collection = path.rpartition(":")
    if not database or not collection or (path and "/" in collection):
        shown = f"{path!r} does not name" if path else "there is no path, and the options do not name both"
        raise BindError(
            f"{shown} a database and a collection",
            hint='write <database>:<collection>, such as save("lake:t") or save("s3://bucket/lake:t")',
        )
    return database, collection


def _check(options: Mapping[str, str]) -> None:
    """Refuses what is nearly an option of ours. Others may be Spark's."""
    known = {name.lower(): name for name in (*OPTIONS, *_KNOBS)}
    for name in options:
        close = get_close_matches(name.lower(), known, n=1, cutoff=0.8)
        if name.lower() not in known and close:
            raise BindError(f'there is no option "{name}"', hint=f"did you mean {known[close[0]]}?")


def whole_number(options: Mapping[str, str], name: str) -> int | None:
    """An option that is a number; None if it is not given."""
    given = options.get(name)
    try:
        return None if given is None else int(given)
    except ValueError:
        raise BindError(f"option {name} is {given!r}", hint=f"{OPTIONS[name]}: a whole number") from None


_lakes: dict[tuple[Place, Config], Lake] = {}
_lock = fork.lock()


def lake_at(place: Place, config: Config) -> Lake:
    """The database at a place, as it is kept open in this process; an error if there is none."""
    with _lock:
        marker = _marker(place)
        known = _lakes.get((place, config))
        if known is None or known.root.marker != marker:
            clock = SystemClock()
            known = _lakes[place, config] = Lake(open_root(place, clock), clock, config)
        return known


def _marker(place: Place) -> Marker:
    """What the root of the database says."""
    if place.kind == "memory":
        raise StoreError(
            "a database in memory cannot be reached from Spark, whose tasks are other processes",
            hint="take a folder or a bucket",
        )
    # A folder must not be opened to see whether it is there: that would make it.
    there = place.kind == "objects" or Path(place.root, ROOT).is_file()
    data = place.blob().get(ROOT) if there else None
    if data is None:
        hint = f'tidegate.open("{place.root}") makes one'
        if place.kind == "files":
            hint += f"; Spark was started in {os.getcwd()}, and from there relative paths go"
        raise StoreError(f"there is no database at {place.root}", hint=hint)
    return Marker.decode(place.root, data)
