"""FORMAT …: what is looked up once, when a source is created.

| said | looked up |
|---|---|
| `CSV WITH HEADER`, `PARQUET`, `AVRO` of files | a first file: its names, columns, schema |
| `AVRO USING SCHEMA FILE 'orders.avsc'` | the file, on the machine of whoever creates the source |
| `AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION csr` | the newest schema of the topic, which decides the columns |
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidegate.errors import BindError, StoreError, TidegateError
from tidegate.ingest.decode.choose import chosen
from tidegate.ingest.decode.registry import Registry, UnknownSchema
from tidegate.ingest.source import Format, Upstream
from tidegate.ingest.stored import registry_of
from tidegate.session.source_making import Making
from tidegate.sql import statement


def chosen_format(making: Making, given: statement.Format, upstream: Upstream | None) -> Format:
    """The format that is asked for; `upstream` is None for that of keys."""
    try:
        options = {option.name: option.value for option in given.options}
        registry = _registry(making, options)
        if registry is not None:
            options = {**options, "schema": _newest(making, registry, key=upstream is None)}
        elif "schema file" in options:
            path = str(options.pop("schema file"))
            making.lake.reach.file(path)
            options["schema"] = _file(path)
        first = getattr(upstream, "first", None)
        found = chosen(given.kind, options, first, registry)
        found.columns  # noqa: B018  # a schema that cannot be read is refused here
        return found
    except TidegateError as error:
        error.position = error.position or making.position(given.at)
        raise


def _registry(making: Making, options: dict[str, Any]) -> Registry | None:
    if "url" in options:
        url = str(options.pop("url"))
        making.lake.reach.url(url)
        return Registry(url)
    if "registry" not in options:
        return None
    connection = making.connection(str(options.pop("registry")))
    if connection.kind != "confluent schema registry":
        raise BindError(
            f'connection "{connection.name}" is to {connection.kind.upper()}, not to a schema registry'
        )
    return registry_of(connection)


def _newest(making: Making, registry: Registry, *, key: bool) -> str:
    """The newest schema of the topic."""
    topic = next((option.value for option in making.given.options if option.name == "topic"), None)
    if topic is None:
        raise BindError("a schema registry is asked for the schema of a TOPIC, and there is none")
    subject = f"{topic}-{'key' if key else 'value'}"
    try:
        return json.dumps(registry.latest(subject)[1])
    except UnknownSchema:
        raise BindError(f'the schema registry {registry.url} has no schema "{subject}"') from None


def _file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"the schema in {path} cannot be read: {error}") from None
