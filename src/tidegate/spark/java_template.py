"""Java's serialised form of an array of similar objects, with gaps for what differs between them.

    template = ArrayTemplate.learn(serialise, samples, others)
    template.fill([sizes, paths])                 the bytes of an array, for one `readObject` in the JVM

Every call to the JVM takes a fraction of a millisecond, and an object of Spark's takes several: 13 s for 10,000 files. So a whole
array is sent as bytes in Java's own serialisation format. The JVM shows how it serialises such objects: three of them, with values
that are easy to recognise, are serialised there, and the bytes between become the template.

    head │ count │ A₁ size B₁ path C₁ │ A₂ size B₂ path C₂ │ A₂ size B₂ path C₂ │ …

The first object names its classes, all others refer back to it; so there are two templates. They are tested on other values before
they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Gaps: TypeAlias = Sequence[Sequence[bytes]]
"""For each object what is in its gaps, in the order of the serialised form."""
SAMPLES = 3
"""Objects that a template is derived from: the first one, and two that show what repeats."""


@dataclass(frozen=True)
class ArrayTemplate:
    """What stands before, between and behind the gaps: of the first object, and of all others."""

    head: bytes
    first: tuple[bytes, ...]
    other: tuple[bytes, ...]

    @staticmethod
    def learn(serialise: Callable[[Gaps], bytes], samples: Gaps, others: Gaps) -> ArrayTemplate | None:
        """Derives a template from samples that `serialise` writes; None if that is not as expected."""
        try:
            template = _parse(serialise(samples), samples)
        except ValueError:  # a value is not where it should be
            return None
        columns = [pa.array(column, pa.large_binary()) for column in zip(*others, strict=True)]
        return template if template.fill(columns) == serialise(others) else None

    def fill(self, gaps: Sequence[pa.Array]) -> bytes:
        """Returns the bytes of an array of at least one object; `gaps` holds a column of bytes for each gap."""
        pieces = [pa.scalar(piece, pa.large_binary()) for piece in self.other]
        between = [value for pair in zip(pieces, gaps, strict=False) for value in pair]
        joined = pc.binary_join_element_wise(*between, pieces[-1], pa.scalar(b"", pa.large_binary()))
        offsets = np.frombuffer(joined.buffers()[1], np.int64, len(joined) + 1)
        data = memoryview(joined.buffers()[2]) if joined.buffers()[2] is not None else memoryview(b"")
        first = b"".join(piece + gap[0].as_py() for piece, gap in zip(self.first, gaps, strict=False))
        count = len(joined).to_bytes(4, "big")
        return b"".join((self.head, count, first, self.first[-1], data[offsets[1] : offsets[-1]]))


def number_bytes(numbers: np.ndarray) -> pa.Array:
    """Returns the bytes of each number."""
    width = numbers.dtype.itemsize
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)


def with_length(values: pa.Array, length: str) -> pa.Array:
    """Returns values behind their lengths, which are written as numbers of this type."""
    values = values.cast(pa.large_binary())
    lengths = number_bytes(pc.binary_length(values).to_numpy().astype(length))
    return pc.binary_join_element_wise(lengths, values, pa.scalar(b"", pa.large_binary()))


def _parse(data: bytes, samples: Gaps) -> ArrayTemplate:
    """Cuts the serialised form of three objects at their gaps."""
    begins = [[data.index(gap) for gap in gaps] for gaps in samples]
    ends = [
        [at + len(gap) for at, gap in zip(*both, strict=True)] for both in zip(begins, samples, strict=True)
    ]
    inner = [
        tuple(data[end:begin] for end, begin in zip(ends[i][:-1], begins[i][1:], strict=True))
        for i in range(SAMPLES)
    ]
    behind = data[ends[2][-1] :]
    before = data[ends[1][-1] : begins[2][0]].removeprefix(behind)
    count = data.index(SAMPLES.to_bytes(4, "big"))
    first = data[ends[0][-1] : begins[1][0]].removesuffix(before)
    return ArrayTemplate(
        data[:count], (data[count + 4 : begins[0][0]], *inner[0], first), (before, *inner[1], behind)
    )
