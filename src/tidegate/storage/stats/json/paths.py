"""Chooses the JSON paths that get statistics in a large part, to keep collecting cheap.

A sample of the documents tells. If most of them begin with the same keys, a template (`template.py`) reads
the first fields of all, at about 0.08 µs a field with all that is done with it: one field for each 65 bytes
of a document is looked at, at least 4. Keys are sorted by length, so these are the short ones. Documents of
other shapes are parsed by DuckDB.

If there is no such shape, or a forced path lies behind a list, all documents are parsed, which alone costs
0.3 µs for 300 bytes; then one path for each 100 bytes is looked at, by what the sample holds there:

| rank | |
|---|---|
| 0 | what the user marked KEEP STATISTICS, and what is named as times are: always, with a template too |
| 1 | integers, and strings that are timestamps: they tend to grow with time, so parts differ |
| 2 | short strings of which many are equal, booleans |
| 3 | reals |
| 4 | other strings: random ones lie everywhere in every part |
| 5 | JSON null alone |

Lists are not looked into. A path that is not looked at is unknown, so it never prunes and never lies.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.storage.stats.json.template import Template
from tidegate.storage.stats.shorten import ISO
from tidegate.storage.stats.time_like import Place, is_forced

BYTES_A_FIELD, FEWEST_FIELDS = 65, 4
BYTES_A_PATH, FEWEST_PATHS = 100, 2
COMMON = 0.5
"""The share of the sample that must have one shape."""
NOTABLE = 0.05
"""The share that makes another shape worth its pass."""
MOST_SHAPES = 3
MOST_FORCED = 64
"""Even forced paths: a map of 10,000 sensors, each `…_time`, must not cost a minute."""
MAX_DEPTH = 8
SHORT = 32
_VALUE = re.compile(r':(?:"(?:[^"\\]|\\.)*"|[-0-9.]+|true|false|null)')
"""A value behind its key: what is left of documents without them is their shape."""


@dataclass
class PathSample:
    """What the sample holds at one path."""

    integers: int = 0
    reals: int = 0
    flags: int = 0
    nulls: int = 0
    texts: list[str] = field(default_factory=list)

    def add(self, value: Any) -> None:
        """One more value, no map and no list."""
        match value:
            case bool():
                self.flags += 1
            case int():
                self.integers += 1
            case float():
                self.reals += 1
            case str():
                self.texts.append(value)
            case _:
                self.nulls += 1

    @property
    def count(self) -> int:
        """How many values."""
        return self.integers + self.reals + self.flags + self.nulls + len(self.texts)

    @property
    def rank(self) -> int:
        """How much its bounds may help, 1 for most."""
        if self.nulls == self.count:
            return 5
        if len(self.texts) * 2 < self.count:
            return 3 if self.reals > self.integers + self.flags else 1 if self.integers else 2
        if all(ISO.match(text[:19] + ".000Z") for text in self.texts[:4]):
            return 1
        short = sum(map(len, self.texts)) <= SHORT * len(self.texts)
        return 2 if short and len(set(self.texts)) * 2 <= len(self.texts) else 4


@dataclass(frozen=True)
class Plan:
    """The paths (below the column) to look at, and the templates that most documents are read by."""

    paths: list[Place]
    templates: list[Template]


def plan(texts: Sequence[str], column: Place, keep: frozenset[Place]) -> Plan:
    """What to look at, given a sample of documents."""
    seen: dict[Place, PathSample] = {}
    for text in texts:
        for path, value in _leaves(json.loads(text), ()):
            seen.setdefault(path, PathSample()).add(value)
    forced = [path for path in seen if is_forced((*column, *path), keep)][:MOST_FORCED]
    size = sum(map(len, texts)) / len(texts)
    return _by_templates(texts, size, forced) or Plan(_by_rank(seen, size, forced), [])


def _by_templates(texts: Sequence[str], size: float, forced: list[Place]) -> Plan | None:
    """The first fields of the commonest shape, if it is common and tells of all that is forced."""
    many = max(FEWEST_FIELDS, int(size) // BYTES_A_FIELD)
    times = Counter(_VALUE.sub("", text) for text in texts)
    examples = {_VALUE.sub("", text): text for text in reversed(texts)}
    alike: dict[Template, list[tuple[Template, int]]] = {}
    for shape, example in examples.items():
        whole = Template.of(json.loads(example))
        alike.setdefault(whole.first(many), []).append((whole, times[shape]))
    groups = [(sum(count for _, count in group), first, group[0][0]) for first, group in alike.items()]
    groups.sort(key=lambda group: -group[0])
    if groups[0][0] < COMMON * len(texts):
        return None
    paths = [*forced, *(field.path for field in groups[0][1].fields if len(field.path) <= MAX_DEPTH)]
    paths = list(dict.fromkeys(paths))
    templates = []
    for count, _, whole in groups[:MOST_SHAPES]:
        needs = [need for path in paths if (need := whole.needed(path)) is not None]
        if paths and len(needs) == len(paths) and count >= NOTABLE * len(texts):
            templates.append(whole.first(max(needs)))
        elif not templates:
            return None  # not even the commonest shape tells of all paths
    return Plan(paths, templates)


def _by_rank(seen: dict[Place, PathSample], size: float, forced: list[Place]) -> list[Place]:
    left = max(0, max(FEWEST_PATHS, int(size) // BYTES_A_PATH) - len(forced))
    others = sorted(
        (found.rank, -found.count, path) for path, found in seen.items() if path not in set(forced)
    )
    return [*forced, *(path for _, _, path in others[:left])]


def _leaves(value: Any, path: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, dict):
        if len(path) < MAX_DEPTH:
            for key, inner in value.items():
                yield from _leaves(inner, (*path, key))
    elif path and not isinstance(value, list):
        yield path, value
