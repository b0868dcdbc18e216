"""The database and collection that `format("tidegate")` reads or writes, parsed from its options.

    df.write.format("tidegate").mode("append").save("lake:orders")
    df.write.format("tidegate").mode("append").option("database", "lake").option("collection", "orders").save()

A path is split at its last colon, because locations contain colons themselves:

| path | database | collection |
|---|---|---|
| `lake:orders` | `lake`, below the folder in which Spark was started | `orders` |
| `/data/lake:orders` | `/data/lake` | `orders` |
| `s3://bucket/lake?metadata=postgresql://me@db:5432/meta:orders` | everything before the last colon | `orders` |
| `s3://bucket/lake` | – | refused: no collection |

Every setting of `config.py` is an option too: `.option("part_bytes", 64 << 20)`. Reading and writing through Spark never creates a
database: a misspelled path is an error.

These functions run in Python processes of Spark, which live from query to query and keep databases open. Before each use the
database's marker is read again: a database that was deleted and created anew at the same place is opened anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from tidegate.clock import SystemClock
from tidegate.config import Config
from tidegate.context import Context, open_context
from tidegate.errors import BindError, StoreError
from tidegate.settings import changed
from tidegate.storage import Location, parse_location
from tidegate.storage.catalog import ROOT_OBJECT as ROOT
from tidegate.storage.catalog import RootMarker, open_root

MAX_OPEN = 8
"""Databases that a Python process of Spark keeps open."""
OPTIONS = {
    "path": "<database>:<collection>",
    "database": "where the database is",
    "collection": "the name of the collection",
    "at": "the time of the rows, in ms",
    "token": "a name for this write: a second write with the same token changes nothing",
    "diffColumn": "a column with the number of times each row is added; -1 retracts it",
    "sink": "a name for a stream",
    "takeover": "true: this stream replaces another one, with another checkpoint, under the same `sink`",
    "as_of": "the time to read at, in ms",
    "columns": "the columns to read, separated by commas",
    "where": "a condition in Tidegate's SQL",
}
"""All options besides the settings of `config.py`. Spark ignores the case of their names."""
_SETTINGS = {field.name for field in fields(Config)}


@dataclass(frozen=True)
class Target:
    """A collection and the settings of one read or write."""

    place: Location
    collection: str
    config: Config

    def lake(self) -> Context:
        """Returns the database, opened in this process."""
        return lake_at(self.place, self.config)


def parse_target(options: Mapping[str, str]) -> Target:
    """Parses the options of a read or write."""
    _check(options)
    database, collection = _database_and_collection(options)
    config = Config()
    for name in sorted(_SETTINGS & {name.lower() for name in options}):
        config = changed(config, name, options[name])
    return Target(parse_location(database), collection, config)


def _database_and_collection(options: Mapping[str, str]) -> tuple[str, str]:
    path, database, collection = (options.get(name) for name in ("path", "database", "collection"))
    if path and (database or collection):
        raise BindError(
            f"both the path {path!r} and the options database and collection are given",
            hint='save("lake:t"), or both options and save()',
        )
    if path:
        database, _, collection = path.rpartition(":")
    if not database or not collection or (path and "/" in collection):
        shown = f"{path!r} does not name" if path else "without a path, the options do not name"
        raise BindError(
            f"{shown} a database and a collection",
            hint='write <database>:<collection>, such as save("lake:t") or save("s3://bucket/lake:t")',
        )
    return database, collection


def _check(options: Mapping[str, str]) -> None:
    """Refuses names that resemble an option of ours; other names may be Spark's."""
    known = {name.lower(): name for name in (*OPTIONS, *_SETTINGS)}
    for name in options:
        close = get_close_matches(name.lower(), known, n=1, cutoff=0.8)
        if name.lower() not in known and close:
            raise BindError(f'there is no option "{name}"', hint=f"did you mean {known[close[0]]}?")


def integer_option(options: Mapping[str, str], name: str) -> int | None:
    """Returns an option that is a whole number; None if it is not set."""
    text = options.get(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise BindError(f"option {name} is {text!r}", hint=f"{OPTIONS[name]}: a whole number") from None


def lake_at(place: Location, config: Config) -> Context:
    """Returns the database at a place, which stays open in this process; an error if there is none."""
    return _open(place, config, _marker(place))


@lru_cache(MAX_OPEN)
def _open(place: Location, config: Config, marker: RootMarker) -> Context:
    """Opens the database that has this marker. It is closed when it is neither cached nor used."""
    del marker
    clock = SystemClock()
    return open_context(open_root(place, clock), clock, config)


def _marker(place: Location) -> RootMarker:
    """Reads the marker of the database; an error if there is no database."""
    if place.kind == "memory":
        raise StoreError(
            "a database in memory cannot be reached from Spark, whose tasks run in other processes",
            hint="open a folder or a bucket",
        )
    # Opening a folder would create it.
    exists = place.kind == "objects" or Path(place.root, ROOT).is_file()
    data = place.blob().get(ROOT) if exists else None
    if data is None:
        hint = f'tidegate.open("{place.root}") creates one'
        if place.kind == "files":
            hint += f"; relative paths start at {os.getcwd()}, where Spark was started"
        raise StoreError(f"there is no database at {place.root}", hint=hint)
    return RootMarker.decode(place.root, data)
