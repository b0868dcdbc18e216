"""The registry of formats: creates a format from FORMAT … and loads it from the catalog.

    create_format("json", {})                                           FORMAT JSON
    create_format("csv", {"columns": 3, "delimiter": ";"})              FORMAT CSV WITH 3 COLUMNS DELIMITED BY ';'
    create_format("csv", {"header": True}, open_sample)                 FORMAT CSV WITH HEADER: names from a sample file
    create_format("avro", {"schema": "{…}"})                            FORMAT AVRO USING SCHEMA '{…}'
    create_format("avro", {"schema": "{…}"}, registry=SchemaRegistry(url))     … CONFLUENT SCHEMA REGISTRY, with its newest schema
    create_format("avro", {}, open_sample)                              files that contain their schema; the same for parquet

    format_from_json({"kind": "csv", "names": ["a"], "header": False, "delimiter": ","}, connections)

Option names are those of the grammar (`sql/parse/grammar/sources.py`). A sample file is read once, when the source is created; then
the format is a value that is stored and sent to tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeAlias

from tidegate.errors import BindError
from tidegate.expr.model import serialize
from tidegate.ingest.connection import ExternalConnection
from tidegate.ingest.formats.avro.format import AvroFormat
from tidegate.ingest.formats.avro.schema_registry import SchemaRegistry
from tidegate.ingest.formats.csv.format import CsvFormat
from tidegate.ingest.formats.json.format import JsonFormat
from tidegate.ingest.formats.parquet.format import ParquetFormat
from tidegate.ingest.formats.plain import PlainFormat
from tidegate.ingest.options import ANY, TEXT, OptionSpec, OptionType, check_options, option_error
from tidegate.ingest.protocol import RecordFormat

OpenSample: TypeAlias = Callable[[], tuple[BinaryIO, str] | None]
"""Opens a sample file of the source, and returns its name; None: the source has no files."""
LoadConnection: TypeAlias = Callable[[str], ExternalConnection]
"""Returns the connection with a given name."""

_HEADER = OptionType("TRUE, FALSE or the names of the columns", lambda _: True)
_DELIMITER = OptionType(
    "one ASCII character, and neither a quote nor a line break",
    lambda value: isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '"\r\n',
)
FORMAT_OPTIONS: dict[str, tuple[OptionSpec, ...]] = {
    "bytes": (),
    "text": (),
    "json": (),
    "csv": (
        OptionSpec("header", _HEADER, "whether files begin with the names of the columns, or these names"),
        OptionSpec("columns", ANY, "how many columns there are"),
        OptionSpec("delimiter", _DELIMITER, "what separates two fields", default=","),
    ),
    "avro": (
        OptionSpec("schema", TEXT, "the schema of the records, as JSON"),
        OptionSpec("registry", ANY, "a connection to a schema registry"),
        OptionSpec("url", ANY, "the URL of a schema registry"),
    ),
    "parquet": (),
}
"""The options of each format."""


def _no_sample() -> None:
    return None


def create_format(
    kind: str,
    options: Mapping[str, Any],
    open_sample: OpenSample = _no_sample,
    registry: SchemaRegistry | None = None,
) -> RecordFormat:
    """Creates the format that a statement describes; raises a BindError if something is missing or wrong."""
    if kind not in FORMAT_OPTIONS:
        names = ", ".join(FORMAT_OPTIONS).upper()
        raise BindError(f"there is no format {kind.upper()}", hint=f"there are {names}")
    values = check_options(f"FORMAT {kind.upper()}", FORMAT_OPTIONS[kind], options)
    match kind:
        case "bytes" | "text":
            return PlainFormat(kind == "text")
        case "json":
            return JsonFormat()
        case "csv":
            return _csv(values, open_sample)
        case "avro" if values["schema"] is not None:
            return AvroFormat(values["schema"], registry)
        case "avro":
            if (sample := open_sample()) is not None:
                return AvroFormat.of_file(*sample)
            raise BindError("the records' schema is not known", hint="write FORMAT AVRO USING SCHEMA '…'")
        case _:
            if (sample := open_sample()) is not None:
                return ParquetFormat.of_file(*sample)
            raise BindError(
                "FORMAT PARQUET is for files", hint="there must be one when the source is created"
            )


def _csv(options: Mapping[str, Any], open_sample: OpenSample) -> CsvFormat:
    delimiter, header, count = options["delimiter"], options["header"] or False, options["columns"]
    if isinstance(header, tuple | list):
        names = tuple(map(str, header))
        if len(set(names)) != len(names) or (count is not None and count != len(names)):
            message = "the names of the columns must be distinct, and as many as there are columns"
            raise option_error(message, "header")
        return CsvFormat(names, header=True, delimiter=delimiter)
    if header and (sample := open_sample()) is not None:
        return CsvFormat.named_by(*sample, delimiter)
    if isinstance(count, int) and count > 0 and not header:
        return CsvFormat.numbered(count, delimiter)
    raise BindError(
        "the columns of the CSV are not known", hint="write WITH n COLUMNS, or WITH HEADER (a, b)"
    )


def format_from_json(stored: Mapping[str, Any], connections: LoadConnection) -> RecordFormat | None:
    """Loads a format from `RecordFormat.to_json`; None: it is the format of an upstream's table."""
    match stored["kind"]:
        case "json":
            return JsonFormat()
        case "text" | "bytes":
            return PlainFormat(stored["kind"] == "text")
        case "csv":
            return CsvFormat(tuple(stored["names"]), stored["header"], stored["delimiter"])
        case "avro":
            registry = stored["registry"]
            if registry is None:
                return AvroFormat(stored["schema"])
            return AvroFormat(stored["schema"], SchemaRegistry.from_json(registry, connections))
        case "parquet":
            columns = ((name, serialize.type_from_json(type_)) for name, type_ in stored["columns"])
            return ParquetFormat(tuple(columns))
        case _:
            return None
