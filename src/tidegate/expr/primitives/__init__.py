"""Vectorised kernels over numpy and Arrow without SQL meaning: numbers, text, JSON, calendars.

    exact_json.canonical_text('{"b": 1.50, "a": 1e3}')      # '{"a":1000,"b":1.5}'
    json_path.extract(documents, [PathRequest((KeyStep("ts"),), as_text=True)])

Functions are declared over these kernels, and other rooms use some of them directly. The sub-room rests on `expr.model`.

| module | contents |
|---|---|
| `bigint` | integers of any length, a column at a time |
| `decimal`, `decimal_division` | exact arithmetic on decimal128 |
| `float_digits` | the shortest decimal spelling of floats |
| `utf8`, `byte_encoding` | text and bytes as numpy buffers; hex, base64, UTF-8 checks |
| `regex`, `text_search` | PostgreSQL regular expressions for RE2; search in many texts |
| `json/`, `jsonpath/` | exact decoding, canonical spelling, paths and changes of JSON documents; SQL/JSON paths |
| `number_format/`, `sql_text` | patterns of to_char and to_number; quoting for SQL |
| `row_loop` | Python functions row by row, for what has no vectorised kernel |
| `time/` | calendar arithmetic, time zones, and reading and writing times and intervals |
| `duckdb_kernels` | SQL expressions that DuckDB evaluates over Arrow arrays |
| `cancel` | the check by which long-running kernels notice cancellation |
"""

from tidegate.expr.primitives import bigint, byte_encoding, duckdb_kernels, text_search
from tidegate.expr.primitives.cancel import cancellable, checked
from tidegate.expr.primitives.decimal import NUMERIC_OVERFLOW, cast_exact, int64_words, with_validity
from tidegate.expr.primitives.duckdb_kernels import (
    duckdb_eval,
    sql_list,
)
from tidegate.expr.primitives.json import canonical as canonical_json
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json import path as json_path
from tidegate.expr.primitives.json.exact import InvalidJson
from tidegate.expr.primitives.json.path import KeyStep, PathRequest
from tidegate.expr.primitives.regex import RegexEnding
from tidegate.expr.primitives.time import calendar
from tidegate.expr.primitives.time.make_interval import checked_intervals
from tidegate.expr.primitives.time.zones import Zone, find_zone
from tidegate.expr.primitives.utf8 import bytes_and_offsets, slice_bytes

__all__ = [
    "NUMERIC_OVERFLOW",
    "InvalidJson",
    "KeyStep",
    "PathRequest",
    "RegexEnding",
    "Zone",
    "bigint",
    "byte_encoding",
    "bytes_and_offsets",
    "calendar",
    "cancellable",
    "canonical_json",
    "cast_exact",
    "checked",
    "checked_intervals",
    "duckdb_eval",
    "duckdb_kernels",
    "exact_json",
    "find_zone",
    "int64_words",
    "json_path",
    "slice_bytes",
    "sql_list",
    "text_search",
    "with_validity",
]
