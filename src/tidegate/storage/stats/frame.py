"""The statistics of all parts as columns: what planning reads, with no loop over parts.

    frame = Frame(rows, facts)                      n containers: parts, row groups or pages
    frame.specs([(0, INT8), (4, JSONB)])            what each column may be in each of them: `expr/domain/specs.py`
    frame.nulls(0)                                  how many rows are NULL, for count(x) from metadata

A frame of a million parts comes out of a segment (`storage/shard/rollup.py`) as one compressed buffer. Facts are
read from it when they are first asked for, so a filter on two columns of a hundred unpacks two. What a part
does not know is null in the facts, and *anything* in the Specs; a column that the part's schema did not
have yet is NULL in all its rows (`absent`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.domain import Specs
from tidegate.expr.model import Type
from tidegate.storage.stats import encode as codec
from tidegate.storage.stats import histogram
from tidegate.storage.stats.columns import FactPath, Facts, fact_name, facts_of_parts, parse_fact_name
from tidegate.storage.stats.to_specs import describe

BLOCK = 1 << 17
"""Containers that are looked at together."""


class FactSource(Protocol):
    """Where facts come from."""

    @property
    def names(self) -> Iterable[str]:
        """The facts that some container has."""

    def read(self, name: str) -> pa.Array | None:
        """A fact by its name; None if no container knows it."""


class Frame:
    """Facts about n containers. A fact is read from its source once, when it is first asked for."""

    def __init__(
        self, rows: np.ndarray, source: Facts | FactSource, unreadable: Mapping[str, int] | None = None
    ) -> None:
        """`rows`: rows of each container. `unreadable`: undecodable statistics, by reason."""
        self.rows, self.unreadable = rows, unreadable or {}
        self._source: FactSource = Plain(source) if isinstance(source, dict) else source
        self._known: Facts = {}

    @staticmethod
    def of_parts(rows: np.ndarray, stats: Sequence[bytes]) -> Frame:
        """From the encoded statistics of a few parts; a loop, for what is not in a segment yet."""
        unreadable: Counter[str] = Counter()
        return Frame(rows, facts_of_parts([codec.decode(data, unreadable) for data in stats]), unreadable)

    @staticmethod
    def concat(frames: Sequence[Frame]) -> Frame:
        """One frame over the containers of all; what one of them does not know is null there."""
        if len(frames) == 1:
            return frames[0]
        rows = [np.zeros(0, np.int64), *(frame.rows for frame in frames)]
        return Frame(np.concatenate(rows), Joined(tuple(frames)))

    def filter(self, mask: np.ndarray) -> Frame:
        """Only the containers where the mask holds."""
        return self if mask.all() else Frame(self.rows[mask], Filtered(self, pa.array(mask)))

    def slice(self, begin: int, end: int) -> Frame:
        """The containers from `begin` to before `end`, without a copy."""
        whole = begin <= 0 and end >= len(self)
        return self if whole else Frame(self.rows[begin:end], Sliced(self, begin, end - begin))

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[int, Frame]]:
        """Slices of at most `size` containers, with their starts: a million would not fit the CPU cache."""
        for begin in range(0, len(self), size):
            yield begin, self.slice(begin, min(begin + size, len(self)))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The facts that some container has."""
        return tuple(self._source.names)

    @cached_property
    def _nodes(self) -> frozenset[FactPath]:
        return frozenset(parse_fact_name(name)[1] for name in self.names)

    def fact(self, fact: str, node: FactPath) -> pa.Array | None:
        """A fact of a node in all containers, null where it is not known; None if none knows it."""
        return self.named(fact_name(fact, node))

    def named(self, name: str) -> pa.Array | None:
        """A fact by its name."""
        found = self._known.get(name)
        if found is None:
            found = self._source.read(name)
            if found is not None:
                self._known[name] = found
        return found

    def keys(self, node: FactPath) -> list[str]:
        """The JSON keys below a node that some container knows something of."""
        size = len(node)
        steps = {inner[size] for inner in self._nodes if len(inner) > size and inner[:size] == node}
        return sorted(step for step in steps if isinstance(step, str))

    def specs(
        self, columns: Iterable[tuple[int, Type]], absent: Mapping[int, np.ndarray] | None = None
    ) -> list[Specs]:
        """What each column (id and type) may be; `absent`: by id, the containers whose rows lack the column."""
        return [describe(self, id_, type_, (absent or {}).get(id_)) for id_, type_ in columns]

    def nulls(self, id_: int) -> pa.Array:
        """How many rows of a column are NULL, null where that is not known."""
        found = self.fact("nulls", (id_,))
        return pa.nulls(len(self), pa.int64()) if found is None else found.cast(pa.int64())

    def distinct(self, id_: int) -> pa.Array:
        """About how many different values a column has, null where that is not known."""
        found = self.fact("distinct", (id_,))
        return pa.nulls(len(self), pa.int64()) if found is None else found.cast(pa.int64())

    def below(self, id_: int, value: pa.Scalar, specs: Specs) -> np.ndarray:
        """About which share of the values of a column is less than `value`, a half where nothing is known.

        `specs` is what `specs` gave for the column.
        """
        return self.places(id_, specs).below(value)

    def places(self, id_: int | None, specs: Specs) -> histogram.Histograms:
        """Where values lie between the bounds of `specs`, by the histogram of a column; None: evenly."""
        n = len(self)
        low, high = (
            pc.coalesce(pa.nulls(n, bound.type), bound[0]) if len(bound) != n else bound
            for bound in specs.bounds()
        )
        made = None if id_ is None else self.fact("histogram", (id_,))
        return histogram.Histograms(low, high, pa.nulls(n, histogram.HISTOGRAM) if made is None else made)

    def pack(self) -> bytes:
        """All facts as bytes, from which `Packed` reads them one by one."""
        return pack(pa.table({name: _narrow(name, self.named(name)) for name in self.names}))

    @staticmethod
    def unpack(data: pa.Buffer | bytes) -> Packed:
        """What `pack` made, as a source."""
        return Packed(pa.py_buffer(data))


def pack(table: pa.Table) -> bytes:
    """A table as bytes, of which `Packed` reads each column by itself."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=max(1, table.num_rows))
    return bytes(sink.getvalue())


def _is_count(name: str) -> bool:
    return parse_fact_name(name)[0] in ("nulls", "rows", "distinct")


def _narrow(name: str, fact: pa.Array) -> pa.Array:
    """Counts in as few bytes as they need: nearly all are zero."""
    if not _is_count(name):
        return fact
    most = pc.max(fact).as_py() or 0
    width = next((t for t in (pa.uint8(), pa.uint16(), pa.uint32()) if most < 2**t.bit_width), pa.int64())
    return fact.cast(width)


class Plain:
    """Facts as they are."""

    def __init__(self, facts: Facts) -> None:
        self.names = tuple(facts)
        self.read = facts.get


class Packed:
    """Facts in a compressed buffer, of which each is unpacked by itself."""

    def __init__(self, data: pa.Buffer) -> None:
        self.data = data
        reader = pa.ipc.open_file(pa.BufferReader(data))
        self.names: tuple[str, ...] = tuple(reader.schema.names)
        self._place = {name: i for i, name in enumerate(self.names)}
        self._batches = range(reader.num_record_batches)

    def read(self, name: str) -> pa.Array | None:
        """One fact; None if it is not there."""
        place = self._place.get(name)
        if place is None:
            return None
        options = pa.ipc.IpcReadOptions(included_fields=[place])
        reader = pa.ipc.open_file(pa.BufferReader(self.data), options=options)
        chunks = [reader.get_batch(i).column(0) for i in self._batches]
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)

    def required(self, name: str) -> pa.Array:
        """One fact that must be there."""
        found = self.read(name)
        if found is None:
            raise pa.ArrowKeyError(name)
        return found

    @property
    def size(self) -> int:
        """How many containers."""
        found = self.read(self.names[0]) if self.names else None
        return 0 if found is None else len(found)


@dataclass(frozen=True)
class Filtered:
    """Facts of some of the containers of a frame."""

    frame: Frame
    mask: pa.Array

    @property
    def names(self) -> Iterable[str]:
        """The same."""
        return self.frame.names

    def read(self, name: str) -> pa.Array | None:
        """The fact, filtered."""
        found = self.frame.named(name)
        return None if found is None else found.filter(self.mask)


@dataclass(frozen=True)
class Sliced:
    """Facts of a stretch of the containers of a frame."""

    frame: Frame
    begin: int
    size: int

    @property
    def names(self) -> Iterable[str]:
        """The same."""
        return self.frame.names

    def read(self, name: str) -> pa.Array | None:
        """The fact, sliced."""
        found = self.frame.named(name)
        return None if found is None else found.slice(self.begin, self.size)


@dataclass(frozen=True)
class Joined:
    """Facts of the containers of several frames, one after the other."""

    frames: tuple[Frame, ...]

    @property
    def names(self) -> Iterable[str]:
        """All that one of them has."""
        return dict.fromkeys(name for frame in self.frames for name in frame.names)

    def read(self, name: str) -> pa.Array | None:
        """The fact, null where a frame does not have it."""
        facts = [frame.named(name) for frame in self.frames]
        type_ = next((fact.type for fact in facts if fact is not None), None)
        if type_ is None:
            return None
        if _is_count(name):
            facts = [None if fact is None else fact.cast(pa.int64()) for fact in facts]
            type_ = pa.int64()
        fitting = [
            fact if fact is not None and fact.type == type_ else pa.nulls(len(frame), type_)
            for fact, frame in zip(facts, self.frames, strict=True)
        ]
        return pa.concat_arrays(fitting)
