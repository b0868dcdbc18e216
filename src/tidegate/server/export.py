"""Results as CSV, JSON lines and Parquet, batch by batch: memory is bounded, whatever a result has.

    for data in csv(result): out.write(data)          a header and lines, as PostgreSQL's COPY writes them: NULL is nothing
    for data in json_lines(result): …                 one JSON object a row; jsonb as itself
    parquet(result, path)                             row groups of about 16 MiB; parquet_bytes(result): the same as bytes
    with replacing(path) as temporary: …              the file is there when all of it is written, and else as it was before

Rows are joined by Arrow, column by column, and no value becomes a Python object but floats, intervals, arrays and records. So a
result is written about as fast as it is read.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import StoreError
from tidegate.expr.types import Kind, Type
from tidegate.scan.values import python_rows
from tidegate.serve.output import json_value, text

if TYPE_CHECKING:
    from tidegate.scan.result import Result

GROUP = 16 << 20
"""Bytes of a row group of a Parquet file."""
_SLOW = (Kind.FLOAT4, Kind.FLOAT8, Kind.INTERVAL, Kind.TIME, Kind.ARRAY, Kind.RECORD)
"""Kinds whose values are spelled one by one."""
_NUMBERS = (Kind.INT2, Kind.INT4, Kind.INT8, Kind.MZ_TIMESTAMP)
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def csv(result: Result) -> Iterator[bytes]:
    """The lines, some at a time."""
    yield (",".join(quoted(name) for name in result.names) + "\n").encode()
    for batch in _slices(result.batches()):
        cells = [_csv_cells(column, type_) for column, type_ in zip(batch.columns, result.types, strict=True)]
        yield _joined([*_between(cells, ","), "\n"])


def json_lines(result: Result) -> Iterator[bytes]:
    """The lines, some at a time. Of columns with the same name the last one counts."""
    places = {name: i for i, name in enumerate(result.names)}
    for batch in _slices(result.batches()):
        parts: list[Any] = []
        for name, i in places.items():
            cells = _json_cells(batch.column(i), result.types[i])
            parts += [("{" if not parts else ", ") + json.dumps(name, ensure_ascii=False) + ": ", cells]
        yield _joined([*parts, "}\n"])


def parquet(result: Result, path: Path) -> None:
    """Writes a Parquet file."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, result.schema, compression="zstd") as writer:
        for group in _groups(result.batches()):
            writer.write_table(pa.Table.from_batches(group, result.schema))


def parquet_bytes(result: Result) -> Iterator[bytes]:
    """The bytes of a Parquet file, some at a time."""
    import pyarrow.parquet as pq

    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), result.schema, compression="zstd") as writer:
        for group in _groups(result.batches()):
            writer.write_table(pa.Table.from_batches(group, result.schema))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """What is written to it waits until it is taken."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        """All that was written since the last time."""
        written, self._written = self._written, []
        return b"".join(written)


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches that become a row group each."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write a file that then takes the place of `path`: not before it is whole, and not at all if writing fails.

    What is no file, such as a pipe or /dev/stdout, is written to directly.
    """
    try:
        if path.exists() and not path.is_file():
            yield path
            return
        path = Path(os.path.realpath(path))
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            yield temporary
            if not temporary.exists():
                return  # there was nothing to write
            if path.exists():
                temporary.chmod(path.stat().st_mode & 0o7777)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from None


# ---------------------------------------------------------------- cells


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from tidegate.serve.pg.encode import slices

    for batch in batches:
        yield from slices(batch)


def _between(cells: Sequence[pa.Array], sign: str) -> list[Any]:
    """Cells with a sign between each two."""
    return [one for cell in cells for one in (sign, cell)][1:]


def _joined(parts: Sequence[Any]) -> bytes:
    """Columns and signs, row by row, behind each other."""
    from tidegate.serve.pg.encode import contents

    return bytes(contents(pc.binary_join_element_wise(*parts, "")))


def _spelled(array: pa.Array, type_: Type) -> pa.Array:
    """The values as texts."""
    if type_.kind in _SLOW:
        return _one_by_one(array, type_, text)
    from tidegate.serve.pg import encode

    return encode.text(array, type_)


def _one_by_one(array: pa.Array, type_: Type, spell: Callable[[Any], str]) -> pa.Array:
    values = [None if value is None else spell(value) for (value,) in python_rows([array], [type_])]
    return pa.array(values, pa.string())


def _csv_cells(array: pa.Array, type_: Type) -> pa.Array:
    cells = _spelled(array, type_)
    if type_.kind not in _NUMBERS:
        odd = pc.or_(pc.match_substring_regex(cells, '[,"\r\n]'), pc.equal(cells, ""))
        if pc.any(odd, min_count=0).as_py():
            doubled = pc.replace_substring(cells, '"', '""')
            cells = pc.if_else(odd, pc.binary_join_element_wise('"', doubled, '"', ""), cells)
    return cells.fill_null("")


def quoted(value: str) -> str:
    """A text as CSV has it."""
    if value == "" or any(sign in value for sign in ',"\r\n'):
        return '"' + value.replace('"', '""') + '"'
    return value


def _json_cells(array: pa.Array, type_: Type) -> pa.Array:
    match type_.kind:
        case kind if kind in _NUMBERS:
            cells = array.cast(pa.string())
        case Kind.BOOL:
            cells = pc.if_else(array, "true", "false")
        case Kind.JSONB:
            cells = array
        case kind if kind in _SLOW:
            cells = _one_by_one(
                array, type_, lambda value: json.dumps(json_value(value, ""), ensure_ascii=False)
            )
        case _:
            cells = _json_texts(_spelled(array, type_))
    return cells.fill_null("null")


def _json_texts(cells: pa.Array) -> pa.Array:
    escaped = cells
    if pc.any(pc.match_substring_regex(cells, '[\\x00-\\x1f"\\\\]'), min_count=0).as_py():
        for sign, instead in _ESCAPES:
            escaped = pc.replace_substring(escaped, sign, instead)
        rare = pc.fill_null(pc.match_substring_regex(escaped, "[\\x00-\\x1f]"), False)
        if pc.any(rare).as_py():
            spelled = [json.dumps(one, ensure_ascii=False)[1:-1] for one in cells.filter(rare).to_pylist()]
            escaped = pc.replace_with_mask(escaped, rare, pa.array(spelled, escaped.type))
    return pc.binary_join_element_wise('"', escaped, '"', "")
