"""The statistics of all parts as columns: what planning reads, with no loop over parts.

    frame = Frame(rows, facts)                      n containers: parts, row groups or pages
    frame.specs([(0, INT8), (4, JSONB)])            what each column may be in each of them: `expr/specs.py`
    frame.nulls(0)                                  how many rows are NULL, for count(x) from metadata

A frame of a million parts comes out of a segment (`shard/rollup.py`) as one compressed buffer. Facts are
read from it when they are first asked for, so a filter on two columns of a hundred unpacks two. What a part
does not know is null in the facts, and *anything* in the Specs; a column that the part's schema did not
have yet is NULL in all its rows (`absent`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.specs import Specs
from tidegate.expr.types import Type
from tidegate.stats import codec, histogram
from tidegate.stats.describe import describe
from tidegate.stats.facts import Facts, Node, facts_of_parts, name_of, read_name


class Frame:
    """Facts about n containers."""

    def __init__(self, rows: np.ndarray, facts: Facts | Packed | None = None) -> None:
        """`rows`: how many rows each container has."""
        self.rows = rows
        self._facts: Facts = facts if isinstance(facts, dict) else {}
        self._packed = facts if isinstance(facts, Packed) else None
        self._mask: pa.Array | None = None

    @staticmethod
    def of_parts(rows: np.ndarray, stats: Sequence[bytes]) -> Frame:
        """From the encoded statistics of a few parts; a loop, for what is not in a segment yet."""
        return Frame(rows, facts_of_parts([codec.decode(data) for data in stats]))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> list[str]:
        """The facts that some container has."""
        return list(self._facts) if self._packed is None else self._packed.names

    def fact(self, fact: str, node: Node) -> pa.Array | None:
        """A fact of a node in all containers, null where it is not known; None if none knows it."""
        return self.named(name_of(fact, node))

    def named(self, name: str) -> pa.Array | None:
        """A fact by its name."""
        found = self._facts.get(name)
        if found is None and self._packed is not None:
            found = self._packed.read(name)
            if found is not None:
                self._facts[name] = found = found if self._mask is None else found.filter(self._mask)
        return found

    def keys(self, node: Node) -> list[str]:
        """The JSON keys below a node that some container knows something of."""
        size = len(node)
        below = (read_name(name)[1] for name in self.names)
        found = (inner[size] for inner in below if len(inner) > size and inner[:size] == node)
        return list(dict.fromkeys(step for step in found if isinstance(step, str)))

    def filter(self, mask: np.ndarray) -> Frame:
        """Only the containers where the mask holds; what is packed is filtered when it is read."""
        keep = pa.array(mask)
        result = Frame(self.rows[mask], {name: fact.filter(keep) for name, fact in self._facts.items()})
        if self._packed is not None:
            assert self._mask is None, "a frame is filtered once"
            result._packed, result._mask = self._packed, keep
        return result

    def specs(
        self, columns: Iterable[tuple[int, Type]], absent: Mapping[int, np.ndarray] | None = None
    ) -> list[Specs]:
        """What each column (id and type) may be; `absent`: by id, the containers whose rows lack the column."""
        return [describe(self, id_, type_, (absent or {}).get(id_)) for id_, type_ in columns]

    def nulls(self, id_: int) -> pa.Array:
        """How many rows of a column are NULL, null where that is not known."""
        found = self.fact("nulls", (id_,))
        return pa.nulls(len(self), pa.int64()) if found is None else found

    def distinct(self, id_: int) -> pa.Array:
        """About how many different values a column has, null where that is not known."""
        found = self.fact("distinct", (id_,))
        return pa.nulls(len(self), pa.int64()) if found is None else found

    def below(self, id_: int, value: pa.Scalar, specs: Specs) -> np.ndarray:
        """About which share of the values of a column is less than `value`, a half where nothing is known.

        `specs` is what `specs` gave for the column.
        """
        n = len(self)
        low, high = (
            pc.coalesce(pa.nulls(n, bound.type), bound[0]) if len(bound) != n else bound
            for bound in specs.bounds()
        )
        skip = histogram.shared(low, high)
        keys = [histogram.keys(array, skip) for array in (pa.repeat(value, n), low, high)]
        made = self.fact("histogram", (id_,))
        return histogram.fraction_below(
            keys[0], pa.nulls(n, histogram.HISTOGRAM) if made is None else made, keys[1], keys[2]
        )

    def table(self) -> pa.Table:
        """All facts as a table."""
        return pa.table({name: self.named(name) for name in self.names})

    def pack(self) -> bytes:
        """All facts as bytes, from which `Packed` reads them one by one."""
        sink = pa.BufferOutputStream()
        table = self.table()
        with pa.ipc.new_file(
            sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
        ) as writer:
            writer.write_table(table.combine_chunks(), max_chunksize=max(1, len(self)))
        return bytes(sink.getvalue())

    @staticmethod
    def unpack(data: pa.Buffer | bytes) -> Packed:
        """What `pack` made; facts are unpacked when they are asked for."""
        return Packed(pa.py_buffer(data))

    @staticmethod
    def concat(frames: Sequence[Frame]) -> Frame:
        """One frame over the containers of all; what one of them does not know is null there."""
        names = dict.fromkeys(name for frame in frames for name in frame.names)
        return Frame(
            np.concatenate([frame.rows for frame in frames]), {name: _joined(name, frames) for name in names}
        )


def _joined(name: str, frames: Sequence[Frame]) -> pa.Array:
    facts = [frame.named(name) for frame in frames]
    type_ = next(fact.type for fact in facts if fact is not None)
    return pa.concat_arrays(
        [
            fact if fact is not None and fact.type == type_ else pa.nulls(len(frame), type_)
            for fact, frame in zip(facts, frames, strict=True)
        ]
    )


class Packed:
    """Facts in a compressed buffer, each read when it is asked for."""

    def __init__(self, data: pa.Buffer) -> None:
        self.data = data
        reader = pa.ipc.open_file(pa.BufferReader(data))
        self.names: list[str] = reader.schema.names
        self._batches = range(reader.num_record_batches)
        self._place = {name: i for i, name in enumerate(self.names)}

    def read(self, name: str) -> pa.Array | None:
        """One fact; None if it is not there."""
        place = self._place.get(name)
        if place is None:
            return None
        options = pa.ipc.IpcReadOptions(included_fields=[place])
        reader = pa.ipc.open_file(pa.BufferReader(self.data), options=options)
        chunks = [reader.get_batch(i).column(0) for i in self._batches]
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)

    @property
    def size(self) -> int:
        """How many containers."""
        found = self.read(self.names[0]) if self.names else None
        return 0 if found is None else len(found)
