"""From the words of CREATE SOURCE to a format.

    chosen("json", {})                                           FORMAT JSON
    chosen("csv", {"columns": 3, "delimiter": ";"})              FORMAT CSV WITH 3 COLUMNS DELIMITED BY ';'
    chosen("csv", {"header": True}, first)                       FORMAT CSV WITH HEADER: `first` opens a first file
    chosen("avro", {"schema": "{…}"})                            FORMAT AVRO USING SCHEMA '{…}'
    chosen("avro", {"schema": "{…}"}, registry=Registry(url))    … CONFLUENT SCHEMA REGISTRY, its newest schema looked up
    chosen("avro", {}, first), chosen("parquet", {}, first)      files that bring their schema

Option names are those of the grammar (`sql/source.py`). What a first file tells is asked once, when the source is
created; the format is then a value that can be stored and sent to tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from tidegate.errors import BindError
from tidegate.ingest.decode.avro import Avro
from tidegate.ingest.decode.csv import Csv
from tidegate.ingest.decode.json import Json
from tidegate.ingest.decode.parquet import Parquet
from tidegate.ingest.decode.plain import Plain
from tidegate.ingest.decode.registry import Registry
from tidegate.ingest.source import Format

First = Callable[[], tuple[BinaryIO, str]]
"""Opens a first file of the source, and says its name."""


def chosen(
    kind: str, options: Mapping[str, Any], first: First | None = None, registry: Registry | None = None
) -> Format:
    """The format that a statement asks for; a BindError if something is missing or cannot be."""
    _known(kind, options)
    match kind:
        case "bytes" | "text":
            return Plain(kind == "text")
        case "json":
            return Json()
        case "csv":
            return _csv(options, first)
        case "avro" if "schema" in options:
            return Avro(options["schema"], registry)
        case "avro" | "parquet" if first is not None:
            return Avro.of_file(*first()) if kind == "avro" else Parquet.of_file(*first())
        case "avro":
            raise BindError("the records' schema is not known", hint="write FORMAT AVRO USING SCHEMA '…'")
        case "parquet":
            raise BindError(
                "FORMAT PARQUET is for files", hint="there must be one when the source is created"
            )
        case _:
            raise BindError(
                f"there is no format {kind.upper()}", hint="BYTES, TEXT, JSON, CSV, AVRO or PARQUET"
            )


_OPTIONS = {"csv": ("header", "columns", "delimiter"), "avro": ("schema", "registry", "url")}


def _known(kind: str, options: Mapping[str, Any]) -> None:
    allowed = _OPTIONS.get(kind, ())
    for name in options:
        if name not in allowed:
            hint = f"it has {', '.join(allowed).upper()}" if allowed else "it has none"
            raise BindError(f"FORMAT {kind.upper()} has no option {name.upper()}", hint=hint)


def _csv(options: Mapping[str, Any], first: First | None) -> Csv:
    delimiter = options.get("delimiter", ",")
    if (
        not isinstance(delimiter, str)
        or len(delimiter) != 1
        or delimiter in '"\r\n'
        or not delimiter.isascii()
    ):
        raise BindError("a delimiter is one ASCII character, and neither a quote nor a line break")
    header, count = options.get("header", False), options.get("columns")
    if isinstance(header, tuple | list):
        names = tuple(map(str, header))
        if len(set(names)) != len(names) or (count is not None and count != len(names)):
            raise BindError("the names of the columns are not different, or not as many as there are columns")
        return Csv(names, header=True, delimiter=delimiter)
    if header and first is not None:
        return Csv.named_by(*first(), delimiter)
    if isinstance(count, int) and count > 0 and not header:
        return Csv.numbered(count, delimiter)
    raise BindError(
        "the columns of the CSV are not known", hint="write WITH n COLUMNS, or WITH HEADER (a, b)"
    )
