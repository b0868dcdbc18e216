"""Deleted rows in Spark: each file carries its deleted positions, and a condition skips them.

    values = deletion_indexes(packed, rows)      for each part, its deleted positions as bytes that can be looked up in
    is_not_deleted(jvm, "_deleted")              a condition that is compiled into the loop that reads the rows

Spark's vectorised reader reads the files as they are. The bytes of a part are the value of a partition column: one constant for all
rows of a file, which travels with the tasks that read this file and with no others. Parts that a filter prunes send nothing.

A lookup is two reads of an array and no search. The bytes are 4-byte numbers: first, for each block of 1,024 rows, where its bits
are; then the bits of the blocks. All blocks without a deleted row share the first one:

    rows 0 … 4,095, of which 2,050 is deleted

    where    128, 128, 256, 128, and 28 numbers of filling      block 2 has bits of its own
    128      32 × 0                                             none of these rows is deleted
    256      4, 31 × 0                                          bit 2: row 2 × 1,024 + 2

So a part needs 4 bytes for 1,024 rows, and 128 more if any of them is deleted: a bit for each row at most, and some 3 % more.

The condition consists of Catalyst nodes that call `ByteBuffer.getInt` on the bytes. Whole-stage code generation writes them as
plain Java calls. They check their bounds: a position that the part does not have makes the query fail.

**Rows instead of batches.** Spark's reader returns rows if there are many columns (`spark.sql.codegen.maxFields`) or a setting says
so, and then copies all values into each row, 5 KB for a part of 40,000 rows. So where a relation cannot be read in batches, files
carry only their number. The bytes of all parts are a constant of the condition, an array in which the number is looked up; every
task gets all of them, also those of pruned parts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from tidegate.spark.java_template import number_bytes
from tidegate.spark.jvm import Jvm
from tidegate.storage.part import bitmaps

POSITION = "_pos"
"""The hidden column of every part that holds the position of the row."""
_SHIFT = 10
_BLOCK = 1 << _SHIFT
"""Rows of a block."""
_WORDS = _BLOCK // 32
_MAX_EXPANDED_ROWS = 16 << 20
"""Rows of parts whose positions are expanded at the same time: at most 8 bytes for each."""


def deletion_indexes(packed: Sequence[bytes], rows: Sequence[int] | np.ndarray) -> pa.Array:
    """Returns the deleted positions of parts with so many rows, from bitmaps, for `is_not_deleted`."""
    counts = np.asarray(rows, np.int64)
    expanded = np.cumsum(counts) // _MAX_EXPANDED_ROWS
    cuts = [0, *(np.flatnonzero(np.diff(expanded)) + 1).tolist(), len(counts)]
    chunks = [_indexes(packed[a:b], counts[a:b]) for a, b in pairwise(cuts) if a < b]
    # Not joined if there is one: when py4j calls, copying 400 KB in Arrow took 15 ms of CPU time, for a reason not found.
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays([pa.array([], pa.large_binary()), *chunks])


def _indexes(packed: Sequence[bytes], rows: np.ndarray) -> pa.Array:
    """Returns the indexes of some parts, computed together: one by one they take 20 μs each."""
    positions = [bitmaps.unpack_positions(bitmap) for bitmap in packed]
    part = np.repeat(np.arange(len(rows)), [len(some) for some in positions])
    position = np.concatenate(positions)
    # Of each part: as many numbers as fill blocks, so that the bits begin at a multiple of 128 bytes.
    header = -(-rows // (_BLOCK * _WORDS)) * _WORDS
    starts = np.flatnonzero((np.diff(part, prepend=-1) != 0) | (np.diff(position >> _SHIFT, prepend=-1) != 0))
    owner, block = part[starts], position[starts] >> _SHIFT  # the blocks with bits of their own, of all parts
    blocks = np.bincount(owner, minlength=len(rows))
    begins = np.concatenate([[0], np.cumsum(header + (blocks + 1) * _WORDS)])
    words = np.zeros(begins[-1], ">u4")
    skipped = begins[:-1] - (np.cumsum(header) - header)
    words[np.repeat(skipped, header) + np.arange(header.sum())] = np.repeat(header * 4, header)
    rank = np.arange(len(starts)) - (np.cumsum(blocks) - blocks)[owner] + 1
    place = header[owner] + rank * _WORDS
    words[begins[owner] + block] = place * 4
    words[(begins[owner] + place)[:, None] + np.arange(_WORDS)] = _bits(position, starts)
    buffers = [None, pa.py_buffer(begins * 4), pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.large_binary(), len(rows), buffers)


def _bits(position: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns the bits of blocks, of which each has the positions from a start on: 32 numbers for each."""
    block = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(position)))
    bits = np.zeros(len(starts) * _BLOCK, bool)
    bits[block * _BLOCK + (position & (_BLOCK - 1))] = True
    return np.packbits(bits, bitorder="little").view("<u4").reshape(len(starts), _WORDS)


def partition_name(taken: Collection[str]) -> str:
    """Returns a name for the partition column that none of these columns has, in whatever case."""
    name, folded = "_deleted", {column.lower() for column in taken}
    while name in folded:
        name = f"_{name}"
    return name


def partition_schema(name: str) -> StructType:
    """Returns the schema of the partition column."""
    return StructType([StructField(name, BinaryType(), nullable=False)])


def part_numbers(positions: np.ndarray) -> pa.Array:
    """Returns the number of each of these parts, as files carry it if they cannot carry more."""
    return number_bytes(positions.astype(">i4"))


def is_not_deleted(jvm: Jvm, name: str, indexes: pa.Array | None = None) -> Any:
    """Returns the condition, a Catalyst expression; `name` is the partition column.

    It holds the deleted positions of a part, or else, if `indexes` is given, the number of the part there.
    """
    if indexes is not None:
        return _Nodes(jvm, name, indexes).condition()
    if name not in jvm.row_filters:  # it refers to columns by name, so it is built once
        jvm.row_filters[name] = _Nodes(jvm, name).condition()
    return jvm.row_filters[name]


class _Nodes:
    """The Catalyst nodes of the condition.

    They are created here and not parsed from a text: in a view, Spark's catalog is locked while the relation is created, and a
    text would look up functions there. None of them depends on ANSI mode.
    """

    def __init__(self, jvm: Jvm, name: str, indexes: pa.Array | None = None) -> None:
        self.jvm = jvm
        self.nodes = jvm.jvm.org.apache.spark.sql.catalyst.expressions
        self.class_of = jvm.jvm.java.lang.Class.forName
        types = jvm.jvm.org.apache.spark.sql.types
        self.int = jvm.from_json('"integer"')
        self.buffer = types.ObjectType(self.class_of("java.nio.ByteBuffer"))
        attribute = jvm.jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
        self.bytes = attribute(jvm.to_seq([name]))
        if indexes is not None:
            constant = self.nodes.Literal(
                jvm.array_data(indexes), types.ArrayType(jvm.from_json('"binary"'), False)
            )
            self.bytes = self.nodes.GetArrayItem(constant, self._number_at(self._number(0)), False)
        self.position = self._static(
            "java.lang.Math", self.int, "toIntExact", attribute(jvm.to_seq([POSITION]))
        )

    def condition(self) -> Any:
        """Returns `(words[where[position >> 10] + (position & 1023) / 32] >> (position & 31) & 1) = 0`."""
        of, position, number = self.nodes, self.position, self._number
        block = self._number_at(of.ShiftLeft(of.ShiftRight(position, number(_SHIFT)), number(2)))
        word = of.ShiftLeft(of.ShiftRight(of.BitwiseAnd(position, number(_BLOCK - 1)), number(5)), number(2))
        bits = self._number_at(of.BitwiseOr(block, word))  # blocks begin at multiples of 128 bytes
        bit = of.BitwiseAnd(of.ShiftRight(bits, of.BitwiseAnd(position, number(31))), number(1))
        return of.EqualTo(bit, number(0))

    def _number(self, number: int) -> Any:
        return self.nodes.Literal(number, self.int)

    def _number_at(self, place: Any) -> Any:
        """Returns the number that begins at a byte."""
        buffer = self._static("java.nio.ByteBuffer", self.buffer, "wrap", self.bytes)
        none, arguments = self.jvm.to_seq([]), self.jvm.to_seq([place])
        return self.nodes.objects.Invoke(buffer, "getInt", self.int, arguments, none, False, False, True)

    def _static(self, class_: str, type_: Any, method: str, argument: Any) -> Any:
        """Returns the call of a static method. Neither its argument nor its result is NULL."""
        none, arguments = self.jvm.to_seq([]), self.jvm.to_seq([argument])
        return self.nodes.objects.StaticInvoke(
            self.class_of(class_), type_, method, arguments, none, False, False, True, self.jvm.none
        )
