"""Results as CSV, JSON lines and Parquet, written batch by batch in bounded memory.

    for data in csv_lines(result): out.write(data)    a header and lines, as PostgreSQL's COPY writes them: NULL is an empty field
    for data in json_lines(result): …                 one JSON object per row; jsonb as JSON
    write_parquet(result, path)                       row groups of about 16 MiB; parquet_chunks(result): the same as bytes
    with atomic_write(path) as temporary: …           replaces the file when all of it is written, and leaves it alone on an error

Arrow joins the columns row by row; only floats, intervals, times, arrays and records become Python objects. So a result is written
about as fast as it is read.
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
from tidegate.expr.model import Kind, Type
from tidegate.query import format_value, json_value, python_rows

if TYPE_CHECKING:
    from tidegate.query import Result

ROW_GROUP_BYTES = 16 << 20
"""Bytes per row group of a Parquet file."""
_VALUE_BY_VALUE = (Kind.FLOAT4, Kind.FLOAT8, Kind.INTERVAL, Kind.TIME, Kind.ARRAY, Kind.RECORD)
"""Kinds whose values are converted to text one by one."""
_NUMBERS = (Kind.INT2, Kind.INT4, Kind.INT8, Kind.MZ_TIMESTAMP)
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def csv_lines(result: Result) -> Iterator[bytes]:
    """Yields the header and the lines, many per chunk."""
    yield (",".join(quote_csv(name) for name in result.names) + "\n").encode()
    for batch in _slices(result.batches()):
        cells = [_csv_cells(column, type_) for column, type_ in zip(batch.columns, result.types, strict=True)]
        yield _join_rows([*_interleave(cells, ","), "\n"])


def json_lines(result: Result) -> Iterator[bytes]:
    """Yields the lines, many per chunk. Of columns with the same name the last one is written."""
    places = {name: i for i, name in enumerate(result.names)}
    for batch in _slices(result.batches()):
        parts: list[Any] = []
        for name, i in places.items():
            cells = _json_cells(batch.column(i), result.types[i])
            parts += [("{" if not parts else ", ") + json.dumps(name, ensure_ascii=False) + ": ", cells]
        yield _join_rows([*parts, "}\n"])


def write_parquet(result: Result, path: Path) -> None:
    """Writes the rows to a Parquet file."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, result.schema, compression="zstd") as writer:
        for group in _groups(result.batches()):
            writer.write_table(pa.Table.from_batches(group, result.schema))


def parquet_chunks(result: Result) -> Iterator[bytes]:
    """Yields the bytes of a Parquet file in chunks."""
    import pyarrow.parquet as pq

    sink = _Sink()
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), result.schema, compression="zstd") as writer:
        for group in _groups(result.batches()):
            writer.write_table(pa.Table.from_batches(group, result.schema))
            yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """A file that holds what is written until `take` removes it."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """Returns what was written since the last call."""
        written, self._written = self._written, []
        return b"".join(written)


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yields batches in groups, each of which becomes a row group."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Gives a temporary path, and renames it to `path` at the end; on an error `path` stays as it was.

    A path that is not a regular file, such as a pipe or /dev/stdout, is written directly.
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
                return  # nothing was written
            if path.exists():
                temporary.chmod(path.stat().st_mode & 0o7777)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


# ---------------------------------------------------------------- cells


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from tidegate.server.postgres.wire.encode import split_batch

    for batch in batches:
        yield from split_batch(batch)


def _interleave(cells: Sequence[pa.Array], separator: str) -> list[Any]:
    """Puts a separator between each two cells."""
    return [part for cell in cells for part in (separator, cell)][1:]


def _join_rows(parts: Sequence[Any]) -> bytes:
    """Concatenates columns and constant texts row by row, and the rows after each other."""
    from tidegate.server.postgres.wire.encode import concatenated_bytes

    return bytes(concatenated_bytes(pc.binary_join_element_wise(*parts, "")))


def _to_text(array: pa.Array, type_: Type) -> pa.Array:
    """Converts the values of a column to texts."""
    if type_.kind in _VALUE_BY_VALUE:
        return _convert_each(array, type_, format_value)
    from tidegate.server.postgres.wire import encode

    return encode.to_text(array, type_)


def _convert_each(array: pa.Array, type_: Type, convert: Callable[[Any], str]) -> pa.Array:
    values = [None if value is None else convert(value) for (value,) in python_rows([array], [type_])]
    return pa.array(values, pa.string())


def _csv_cells(array: pa.Array, type_: Type) -> pa.Array:
    cells = _to_text(array, type_)
    if type_.kind not in _NUMBERS:
        special = pc.or_(pc.match_substring_regex(cells, '[,"\r\n]'), pc.equal(cells, ""))
        if pc.any(special, min_count=0).as_py():
            doubled = pc.replace_substring(cells, '"', '""')
            cells = pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), cells)
    return cells.fill_null("")


def quote_csv(value: str) -> str:
    """Quotes a text as CSV needs it."""
    if value == "" or any(character in value for character in ',"\r\n'):
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
        case kind if kind in _VALUE_BY_VALUE:
            cells = _convert_each(
                array, type_, lambda value: json.dumps(json_value(value, ""), ensure_ascii=False)
            )
        case _:
            cells = _json_texts(_to_text(array, type_))
    return cells.fill_null("null")


def _json_texts(cells: pa.Array) -> pa.Array:
    escaped = cells
    if pc.any(pc.match_substring_regex(cells, '[\\x00-\\x1f"\\\\]'), min_count=0).as_py():
        for character, replacement in _ESCAPES:
            escaped = pc.replace_substring(escaped, character, replacement)
        rare = pc.fill_null(pc.match_substring_regex(escaped, "[\\x00-\\x1f]"), False)
        if pc.any(rare).as_py():
            texts = [json.dumps(value, ensure_ascii=False)[1:-1] for value in cells.filter(rare).to_pylist()]
            escaped = pc.replace_with_mask(escaped, rare, pa.array(texts, escaped.type))
    return pc.binary_join_element_wise('"', escaped, '"', "")
