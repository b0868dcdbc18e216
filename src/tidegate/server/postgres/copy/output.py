r"""Encodes rows as CopyData messages, many at once and without Python objects.

    CopyEncoder(options, names, types).encode(batch)      b"d" size "1\tham\n", b"d" size "2\teggs\n", …

There is one message per row, as PostgreSQL sends them: clients such as psycopg rely on it. A row of the binary format is that of
DataRow; its signature precedes the first row, in the same message.

| format | values | NULL | what is escaped |
|---|---|---|---|
| text | as cast to text, separated by tabs | `\N` | backslash, tab, line breaks |
| csv | as cast to text, separated by commas | an empty field | quotes: fields with a comma, quote or line break, and empty texts |
| binary | PostgreSQL's binary formats | length -1 | nothing |
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.model import Type
from tidegate.server.postgres.copy.options import CopyOptions
from tidegate.server.postgres.wire import encode
from tidegate.server.postgres.wire.messages import frame

SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
"""How the binary format begins: its name, flags, and the length of an extension."""
TRAILER = struct.pack(">h", -1)
_ESCAPES = (
    ("\\", "\\\\"),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\t", "\\t"),
    ("\b", "\\b"),
    ("\f", "\\f"),
    ("\v", "\\v"),
)


class CopyEncoder:
    """Encodes the rows of one COPY, in their order."""

    def __init__(self, options: CopyOptions, names: Sequence[str], types: Sequence[Type]) -> None:
        self.options, self.names, self.types = options, tuple(names), tuple(types)
        self._first = True

    def start(self) -> bytes:
        """CopyOutResponse: the format of the whole, and of each column."""
        form = int(self.options.format == "binary")
        count = len(self.types)
        return frame(b"H", struct.pack(f">bh{count}h", form, count, *(form,) * count))

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """Encodes rows, the first ones after the header."""
        header = self._header()
        if self.options.format != "binary":
            return header + bytes(self._lines(batch))
        formats = [1] * batch.num_columns
        rows = bytes(encode.encode_rows(batch, self.types, formats, b"d"))
        if header:
            size = struct.unpack_from(">i", rows, 1)[0]
            rows = frame(b"d", header + rows[5 : size + 1]) + rows[size + 1 :]
        return rows

    def end(self) -> bytes:
        """What follows the last row: CopyDone, in the binary format after a trailer."""
        header = self._header()
        if self.options.format == "binary":
            return frame(b"d", header + TRAILER) + frame(b"c")
        return header + frame(b"c")

    def _header(self) -> bytes:
        """Returns what precedes the first row: a line of names, or the signature; nothing later."""
        if not self._first:
            return b""
        self._first = False
        if self.options.format == "binary":
            return SIGNATURE
        if not self.options.header:
            return b""
        names = [self._cells(pa.array([name]), "", plain=True) for name in self.names]
        return bytes(_framed(self._joined(names)))

    def _lines(self, batch: pa.RecordBatch) -> memoryview:
        cells = [
            self._cells(encode.to_text(array, type_).cast(pa.string()), name)
            for array, type_, name in zip(batch.columns, self.types, self.names, strict=True)
        ]
        return _framed(self._joined(cells))

    def _joined(self, cells: Sequence[pa.Array]) -> pa.Array:
        """Joins the cells of each row to a line."""
        parts: list[Any] = [part for cell in cells for part in (self.options.delimiter, cell)][1:]
        return pc.binary_join_element_wise(*parts, "\n", "")

    def _cells(self, texts: pa.Array, name: str, *, plain: bool = False) -> pa.Array:
        """Escapes or quotes the texts of a column; NULL becomes what stands for it."""
        if self.options.format == "text":
            return _escaped(texts, self.options.delimiter).fill_null(self.options.null)
        forced = not plain and (self.options.force_quote is None or name in self.options.force_quote)
        return self._quoted(texts, forced).fill_null(self.options.null)

    def _quoted(self, texts: pa.Array, forced: bool) -> pa.Array:
        options = self.options
        special = [options.delimiter, options.quote, "\n", "\r"]
        needs = reduce(pc.or_, [pc.match_substring(texts, character) for character in special])
        needs = pc.or_(needs, pc.equal(texts, options.null))
        if len(self.types) == 1:
            needs = pc.or_(needs, pc.equal(texts, "\\."))  # alone on a line it would end the data
        if not forced and not pc.any(needs, min_count=0).as_py():
            return texts
        inner = texts
        if options.escape != options.quote:
            inner = pc.replace_substring(inner, options.escape, options.escape * 2)
        inner = pc.replace_substring(inner, options.quote, options.escape + options.quote)
        quoted = pc.binary_join_element_wise(options.quote, inner, options.quote, "")
        return quoted if forced else pc.if_else(needs, quoted, texts)


def _escaped(texts: pa.Array, delimiter: str) -> pa.Array:
    escapes = _ESCAPES if delimiter == "\t" else (*_ESCAPES, (delimiter, "\\" + delimiter))
    for character, replacement in escapes:
        if pc.any(pc.match_substring(texts, character), min_count=0).as_py():
            texts = pc.replace_substring(texts, character, replacement)
    return texts


def _framed(lines: pa.Array) -> memoryview:
    """Puts each line into a CopyData message."""
    lines = lines.cast(pa.binary())
    head = np.empty(len(lines), np.dtype([("kind", "S1"), ("size", ">i4")]))
    head["kind"] = b"d"
    head["size"] = pc.binary_length(lines).to_numpy(zero_copy_only=False) + 4
    return encode.concatenated_bytes(pc.binary_join_element_wise(encode.fixed_width_bytes(head), lines, b""))
