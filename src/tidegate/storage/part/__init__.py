"""Parts: the Parquet files that hold the updates of a shard, and blocks of updates in memory.

A part is written once, from a `Block` of updates (columns, and the time and diff of each row). Readers fetch its tail first, which
lists the position and checksum of each page, and then only the pages they need.

>>> from tidegate.expr.model.types import INT8, TEXT
>>> schema = Schema.of([("id", INT8, True), ("name", TEXT, True)])
>>> conform(schema, {"id": [1, 2], "name": ["a", None]})[0].to_pylist()
[1, 2]

| module | contents |
|---|---|
| `part` | `Part`: what the state of a shard records about a file |
| `schema` | columns with ids, so that a column can be renamed or dropped |
| `conform` | checks and converts the rows that a user appends |
| `encode`, `page_table`, `checksum` | the layout of a file, the table of its pages, digests |
| `part_file`, `page_reader`, `thrift` | reading single pages of a file |
| `updates` | reading all updates of a file |
| `deletions`, `deletion_records`, `bitmaps` | which rows of parts are deleted, and since when |
| `merge`, `row_keys` | sorting, merging and consolidating updates |
"""

from tidegate.storage.part import bitmaps, deletion_records, thrift
from tidegate.storage.part.conform import TableLike, can_conform, conform
from tidegate.storage.part.encode import INTERVAL_STRUCT, from_storage, one_chunk, to_storage
from tidegate.storage.part.merge import Block, concat, consolidate, consolidate_rows, repeat_rows
from tidegate.storage.part.page_reader import RowRange
from tidegate.storage.part.part import Part
from tidegate.storage.part.part_file import PartFile
from tidegate.storage.part.row_keys import exact_keys, has_ambiguous_equality, row_keys
from tidegate.storage.part.schema import HIDDEN_COLUMNS, Schema, SchemaColumn

__all__ = [
    "HIDDEN_COLUMNS",
    "INTERVAL_STRUCT",
    "Block",
    "Part",
    "PartFile",
    "RowRange",
    "Schema",
    "SchemaColumn",
    "TableLike",
    "bitmaps",
    "can_conform",
    "concat",
    "conform",
    "consolidate",
    "consolidate_rows",
    "deletion_records",
    "exact_keys",
    "from_storage",
    "has_ambiguous_equality",
    "one_chunk",
    "repeat_rows",
    "row_keys",
    "thrift",
    "to_storage",
]
