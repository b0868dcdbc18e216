"""Encodes a part: a Parquet file of updates, laid out so that little of it must be read.

    the user's columns …   _time int64   _diff int64   _pos int64

- zstd at level 1, row groups of up to 1,048,576 rows, pages of at most 8,192 rows with a page index, page checksums.
- Dictionaries only where values repeat: a dictionary of distinct values must be fetched to read a single row.
- `_time`, `_diff` and `_pos` (the row's position) are delta-encoded and cost almost nothing; `_pos` lets a reader be driven by a
  bitmap of ours.
- Floats have no Parquet statistics: the min and max of a footer leave out NaN, and readers that order NaN above everything (Spark)
  would skip rows that match. Our own statistics include NaN.
- Our own statistics of each page, and the values on it, are in the file's metadata, as text that other readers ignore.
- Columns carry their id as Parquet's field id. Intervals, which pyarrow cannot write, are structs of months, days, microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import CorruptError
from tidegate.expr.model import Kind, Type, order
from tidegate.storage.part.page_table import with_table
from tidegate.storage.part.schema import HIDDEN_COLUMNS, Schema
from tidegate.storage.stats.collect import PAGE_ROWS, Footer
from tidegate.storage.stats.counters import StatsCounters
from tidegate.storage.stats.frame import Frame
from tidegate.storage.stats.page_values import ROSTERS_KEY, PageValues, repeats
from tidegate.storage.stats.part_stats import PAGES_KEY, read_pages
from tidegate.text import first_line

if TYPE_CHECKING:  # it takes long to import, and a query that reads no part need not wait for it
    import pyarrow.parquet as pq

ROW_GROUP_ROWS = 128 * PAGE_ROWS
INTERVAL_STRUCT = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())])


def encode_part(
    schema: Schema,
    columns: list[pa.Array],
    times: pa.Array,
    diffs: pa.Array,
    pages: bytes = b"",
    rosters: bytes = b"",
) -> bytes:
    """The bytes of a part: `columns` in the order of the schema, and the time and diff of each row.

    `pages` is the page map (`storage/stats/part_stats.py`), and `rosters` says which values are on which pages
    (`storage/stats/page_values.py`). Both are stored in the metadata of the file.
    """
    import pyarrow.parquet as pq

    stored = [to_storage(array, column.type) for array, column in zip(columns, schema.columns, strict=True)]
    fields = [
        pa.field(column.name, array.type, metadata={"PARQUET:field_id": str(column.id + 1)})
        for column, array in zip(schema.columns, stored, strict=True)
    ]
    hidden = [times, diffs, pa.array(np.arange(len(times)))]
    fields += [pa.field(name, pa.int64(), nullable=False) for name in HIDDEN_COLUMNS]
    table = pa.Table.from_arrays([*stored, *hidden], schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **layout(table)) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        statistics = {PAGES_KEY: pages, ROSTERS_KEY: rosters}
        # Not as metadata of the schema, which pyarrow would write a second time inside `ARROW:schema`.
        writer.add_key_value_metadata({key: value for key, value in statistics.items() if value})
    return with_table(sink.getvalue())


def layout(table: pa.Table) -> dict[str, Any]:
    """The layout of a part, as options of pyarrow's writer."""
    hidden = [name for name in HIDDEN_COLUMNS if name in table.schema.names]
    repeating = [n for n in table.schema.names if n not in hidden and repeats(one_chunk(table.column(n)))]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "max_rows_per_page": PAGE_ROWS,
        "write_page_index": True,
        "write_page_checksum": True,
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(hidden, "DELTA_BINARY_PACKED"),
        "write_statistics": _with_statistics(table.schema),
        "store_schema": True,
    }


def parquet_metadata(data: pa.Buffer | bytes) -> pq.FileMetaData:
    """The footer of a Parquet file that is in memory."""
    import pyarrow.parquet as pq

    return pq.read_metadata(pa.BufferReader(data))


def parquet_file(source: pa.Buffer | bytes | pa.NativeFile, **options: Any) -> pq.ParquetFile:
    """A reader of a Parquet file that is in memory, or behind a file of Arrow."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(source if isinstance(source, pa.NativeFile) else pa.BufferReader(source), **options)


def text_bounds(data: bytes) -> Footer:
    """The least and greatest text (or bytea) of each column in the footer, by id.

    Columns without bounds in the footer are left out.
    """
    metadata = parquet_metadata(data)
    there = {name: id_ for id_, name in field_ids(metadata.schema.to_arrow_schema()).items()}
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    bounds: dict[int, tuple[Any, Any]] = {}
    for i in range(metadata.num_columns):
        leaf = metadata.schema.column(i)
        # A column "r.x" and the field x of r have the same path, but only the column has it as its name.
        if leaf.name != leaf.path or leaf.path not in there or leaf.physical_type != "BYTE_ARRAY":
            continue
        found = [(group.column(i).statistics, group.num_rows) for group in groups]
        told = [s for s, rows in found if s is None or s.has_min_max or s.null_count != rows]
        if all(s is not None and s.has_min_max for s in told):
            ends = [(s.min, s.max) for s in told]
            bounds[there[leaf.path]] = (
                (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (None, None)
            )
    return bounds


def page_frame(metadata: pq.FileMetaData, counters: StatsCounters) -> Frame | None:
    """The statistics of a part's pages, if its file has them; facts are unpacked when they are read."""
    return read_pages((metadata.metadata or {}).get(PAGES_KEY, b""), metadata.num_rows, counters)


def page_rosters(metadata: pq.FileMetaData, counters: StatsCounters) -> PageValues:
    """The values on each page, for the columns for which the file has them."""
    return PageValues.read(
        (metadata.metadata or {}).get(ROSTERS_KEY, b""), -(-metadata.num_rows // PAGE_ROWS), counters
    )


def decode_part(
    name: str, data: pa.Buffer | bytes, schema: Schema, wanted: list[int]
) -> tuple[list[pa.Array], pa.Table]:
    """The columns with these ids, in the types of `schema`, and `_time`, `_diff`, `_pos`.

    Columns that the part lacks are NULL, or as they were added.
    """
    try:
        file = parquet_file(data, page_checksum_verification=True)
        there = field_ids(file.schema_arrow)
        names = [there[id_] for id_ in wanted if id_ in there]
        table = file.read(columns=[*names, *HIDDEN_COLUMNS]).combine_chunks()
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{name} cannot be read as Parquet: {first_line(error)}") from None
    types = {column.id: column.type for column in schema.columns}
    columns = []
    for id_ in wanted:
        if id_ in there:
            stored = table.column(there[id_]).combine_chunks()
            columns.append(from_storage(one_chunk(stored), types[id_]))
        else:
            columns.append(schema.lacking(id_, types[id_], table.num_rows))
    return columns, table.select(list(HIDDEN_COLUMNS))


def field_ids(schema: pa.Schema) -> dict[int, str]:
    """Column id → name in the file."""
    found = {}
    for field in schema:
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        if number is not None and field.name not in HIDDEN_COLUMNS:
            found[int(number) - 1] = field.name
    return found


def one_chunk(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array, copied only if it has several chunks."""
    if isinstance(array, pa.ChunkedArray):
        if not array.num_chunks:
            return pa.array([], array.type)
        return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)
    return array


def plain_text(column: pa.ChunkedArray) -> pa.Array:
    """One array; texts without the views that polars makes of them."""
    array = one_chunk(column)
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.binary())
    return array


def decode_dictionary(array: pa.Array) -> pa.Array:
    """The values of an array that may be one of codes."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _with_statistics(schema: pa.Schema) -> list[str]:
    """The paths of columns whose footers may have min and max: all but floats and what is in lists."""
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    # Parquet does not distinguish the column "r.x" from the field x of r: if one of them is a float, neither has statistics.
    floats = {path for path, type_ in leaves if pa.types.is_floating(type_)}
    return [path for path, type_ in leaves if path not in floats and not pa.types.is_list(type_)]


def _leaves(path: str, type_: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """A column, or the fields of a record: pyarrow's writer needs the path of each field."""
    if not pa.types.is_struct(type_):
        return [(path, type_)]
    fields = [type_.field(i) for i in range(type_.num_fields)]
    return [leaf for field in fields for leaf in _leaves(f"{path}.{field.name}", field.type)]


def _holds_interval(type_: Type) -> bool:
    inner = [type_.element] if type_.element is not None else [t for _, t in type_.fields]
    return type_.kind is Kind.INTERVAL or any(_holds_interval(t) for t in inner)


def to_storage(array: pa.Array, type_: Type) -> pa.Array:
    """Intervals as structs, at any depth; everything else unchanged."""
    if not _holds_interval(type_):
        return array
    if type_.kind is Kind.INTERVAL:
        months, days, micros = order.interval_parts(array)
        parts = [pa.array(months.astype(np.int32)), pa.array(days.astype(np.int32)), pa.array(micros)]
        return pa.StructArray.from_arrays(parts, fields=list(INTERVAL_STRUCT), mask=array.is_null())
    if type_.element is not None:
        return _relist(array, to_storage(array.flatten(), type_.element))
    inner = [to_storage(pc.struct_field(array, [i]), t) for i, (_, t) in enumerate(type_.fields)]
    return pa.StructArray.from_arrays(inner, names=[name for name, _ in type_.fields], mask=array.is_null())


def from_storage(array: pa.Array, type_: Type) -> pa.Array:
    """The reverse of `to_storage`."""
    if not _holds_interval(type_):
        return array if array.type == type_.arrow else array.cast(type_.arrow)
    if type_.kind is Kind.INTERVAL:
        months, days, micros = (pc.fill_null(pc.struct_field(array, [i]), 0).to_numpy() for i in range(3))
        return order.make_intervals(months, days, micros, array.is_valid() if array.null_count else None)
    if type_.element is not None:
        return _relist(array, from_storage(array.flatten(), type_.element))
    inner = [from_storage(pc.struct_field(array, [i]), t) for i, (_, t) in enumerate(type_.fields)]
    return pa.StructArray.from_arrays(inner, names=[name for name, _ in type_.fields], mask=array.is_null())


def _relist(array: pa.Array, values: pa.Array) -> pa.Array:
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=array.is_null())
