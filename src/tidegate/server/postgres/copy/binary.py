r"""Reads the data of COPY … FROM STDIN in the binary format.

    PGCOPY\n\xff\r\n\0  flags  length of an extension  | columns  length value  length value | columns … | -1

Values are those of binary parameters (`wire/values.py`), and become texts as those do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidegate.server.postgres.copy.lines import RawRows
from tidegate.server.postgres.copy.output import SIGNATURE
from tidegate.server.postgres.wire.sqlstate import PostgresError
from tidegate.server.postgres.wire.values import parameter_text

_NAME = SIGNATURE[:11]
_PIECE = 1 << 18
MAX_VALUE = 64 << 20


class BinaryReader:
    """Cuts the data into rows as it arrives."""

    def __init__(self, oids: Sequence[int]) -> None:
        self.oids = tuple(oids)
        self._rest = b""
        self._started = self._ended = False
        self._row = 1

    def feed(self, data: bytes) -> Iterator[RawRows]:
        """Yields the rows that are complete."""
        self._rest += data
        if len(self._rest) >= _PIECE:
            yield from self._read()

    def finish(self) -> Iterator[RawRows]:
        """Yields the rows that are left; the data must have ended properly."""
        yield from self._read()
        if not self._started or (self._rest and not self._ended):
            raise PostgresError("22P04", "the binary data of COPY ends in the middle", context=self._place())

    def _place(self) -> str:
        return f"row {self._row}"

    def _read(self) -> Iterator[RawRows]:
        at = 0 if self._started else self._start()
        if not self._started:
            return
        values: list[list[str | None]] = [[] for _ in self.oids]
        first = self._row
        while not self._ended and (found := self._next(at)) is not None:
            row, at = found
            for column, value in zip(values, row, strict=True):
                column.append(value)
            self._row += 1
        self._rest = b"" if self._ended else self._rest[at:]
        if self._row > first:
            columns = [pa.array(column, pa.string()) for column in values]
            yield RawRows(columns, range(first, self._row))

    def _start(self) -> int:
        """Reads what precedes the first row; returns where that begins."""
        if self._rest[: len(_NAME)] != _NAME[: len(self._rest)]:
            raise PostgresError("22P04", "the data of COPY is not in the binary format")
        if len(self._rest) < len(SIGNATURE):
            return 0
        flags, extension = struct.unpack_from(">Ii", self._rest, len(_NAME))
        if flags & 0xFFFF0000 or not 0 <= extension <= MAX_VALUE:
            raise PostgresError("22P04", "the binary data of COPY has flags that are not known")
        if len(self._rest) < len(SIGNATURE) + extension:
            return 0
        self._started = True
        return len(SIGNATURE) + int(extension)

    def _next(self, at: int) -> tuple[list[str | None], int] | None:
        """Returns the row at a place and where it ends; None: it is not complete, or there is none."""
        data = self._rest
        if at + 2 > len(data):
            return None
        count = struct.unpack_from(">h", data, at)[0]
        at += 2
        if count == -1:
            self._ended = True
            return None
        if count != len(self.oids):
            message = f"the row has {count} values, and there are {len(self.oids)} columns"
            raise PostgresError("22P04", message, context=self._place())
        row: list[str | None] = []
        for oid in self.oids:
            if at + 4 > len(data):
                return None
            size = struct.unpack_from(">i", data, at)[0]
            at += 4
            if size < -1 or size > MAX_VALUE:
                raise PostgresError(
                    "22P04", "a value of COPY has an impossible length", context=self._place()
                )
            if at + max(size, 0) > len(data):
                return None
            row.append(self._value(oid, None if size == -1 else data[at : at + size]))
            at += max(size, 0)
        return row, at

    def _value(self, oid: int, data: bytes | None) -> str | None:
        try:
            return parameter_text(oid, 1, data)
        except PostgresError as error:
            error.context = self._place()
            raise
