"""FORMAT …: looks up the schema of a source once, when it is created.

| statement | looked up |
|---|---|
| `CSV WITH HEADER`, `PARQUET`, `AVRO` of files | a sample file: its names, columns, schema |
| `AVRO USING SCHEMA FILE 'orders.avsc'` | the file, on the machine where the source is created |
| `AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION csr` | the newest schema of the topic, which determines the columns |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.context import Context
from tidegate.errors import BindError, Position, StoreError, TidegateError
from tidegate.ingest.define.connection import external_connection
from tidegate.ingest.formats.avro.schema_registry import SchemaRegistry, UnknownSchemaError
from tidegate.ingest.formats.registry import create_format
from tidegate.ingest.protocol import RecordFormat, Upstream
from tidegate.sql.parse import statement
from tidegate.storage.catalog import ConnectionItem


def source_format(
    context: Context,
    created: statement.CreateSource,
    connections: Mapping[str, ConnectionItem],
    upstream: Upstream,
    *,
    key: bool,
) -> RecordFormat | None:
    """Creates the format of FORMAT, or of KEY FORMAT with `key`; None if the statement has none."""
    clause = created.key_format if key else created.format
    if clause is None:
        return None
    try:
        options = {option.name: option.value for option in clause.options}
        registry = _registry(context, options, connections)
        if registry is not None:
            options["schema"] = _newest_schema(created, registry, key=key)
        elif "schema file" in options:
            path = str(options.pop("schema file"))
            context.access.file(path)
            options["schema"] = _read_schema(path)
        open_sample = (lambda: None) if key else upstream.open_sample
        format_ = create_format(clause.kind, options, open_sample, registry)
        format_.columns  # noqa: B018  # raises if the schema cannot be used
    except TidegateError as error:
        error.position = error.position or Position(created.sql, *clause.at)
        raise
    return format_


def _registry(
    context: Context, options: dict[str, Any], connections: Mapping[str, ConnectionItem]
) -> SchemaRegistry | None:
    """Returns the schema registry that the options name, and removes these options."""
    if "url" in options:
        url = str(options.pop("url"))
        context.access.url(url)
        return SchemaRegistry(url)
    if "registry" not in options:
        return None
    name = str(options.pop("registry"))
    connection = external_connection(name, connections[name])
    if connection.kind != "confluent schema registry":
        raise BindError(f'connection "{name}" is to {connection.kind.upper()}, not to a schema registry')
    return SchemaRegistry.of(connection)


def _newest_schema(created: statement.CreateSource, registry: SchemaRegistry, *, key: bool) -> str:
    """Fetches the newest schema of the topic."""
    topic = next((option.value for option in created.options if option.name == "topic"), None)
    if topic is None:
        raise BindError("a schema registry has the schemas of topics, and the source has no TOPIC")
    subject = f"{topic}-{'key' if key else 'value'}"
    try:
        return json.dumps(registry.latest(subject)[1])
    except UnknownSchemaError:
        raise BindError(f'the schema registry {registry.url} has no schema "{subject}"') from None


def _read_schema(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"the schema in {path} cannot be read: {error}") from None
