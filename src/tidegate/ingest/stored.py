"""A source as JSON, as the catalog keeps it.

    {"version": 1, "name": "orders_30d", "kind": "kafka", "upstream": {"connection": "k", "topic": "orders"},
     "included": [["offset", "offset", null]], "envelope": "none", "errors": "77…",
     "outputs": [{"name": "orders_30d", "shard": "3f…", "format": {"kind": "json"}, "plan": {…}, "hidden": 2}], …}

Plans are kept as they were bound (`plan/stored.py`), with the versions of their functions: what runs in ten years is what was
accepted today. Connections are named, and asked for again when the source is loaded; so a password is in one place, and a broker
that moves is told to its connection alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from tidegate.errors import TidegateError
from tidegate.expr.stored import type_from_json, type_to_json
from tidegate.ingest import connect
from tidegate.ingest.connect import Connection
from tidegate.ingest.decode.avro import Avro
from tidegate.ingest.decode.csv import Csv
from tidegate.ingest.decode.json import Json
from tidegate.ingest.decode.parquet import Parquet
from tidegate.ingest.decode.plain import Plain
from tidegate.ingest.decode.registry import Registry
from tidegate.ingest.definition import Output, Source
from tidegate.ingest.source import Format, Included, Limit
from tidegate.plan import stored as plans

VERSION = 1

Connections = Callable[[str], Connection]
"""The connection of a name."""


def to_json(source: Source) -> dict[str, Any]:
    """A source as JSON. It holds no secrets."""
    upstream: Any = source.upstream
    limit = source.limit
    return {
        "version": VERSION,
        "name": source.name,
        "kind": source.kind,
        "upstream": upstream.to_json(),
        "outputs": [_output(output, source.kind) for output in source.outputs],
        "errors": source.errors,
        "included": [[one.what, one.name, one.argument] for one in source.included],
        "envelope": source.envelope,
        "key_format": None if source.key_format is None else format_to_json(source.key_format, source.kind),
        "limit": [limit.rows, limit.bytes, limit.files],
        "max_errors": source.max_errors,
        "options": source.options,
    }


def from_json(given: Mapping[str, Any], connections: Connections) -> Source:
    """A source from JSON, and the connections that it names; a PlanError if a function of its plans has changed."""
    if given["version"] > VERSION:
        raise TidegateError(
            f'source "{given["name"]}" was made by a newer version of Tidegate', hint="upgrade Tidegate"
        )
    named = given["upstream"].get("connection")
    key = given["key_format"]
    return Source(
        given["name"],
        given["kind"],
        connect.again(given["kind"], given["upstream"], None if named is None else connections(named)),
        tuple(_read_output(output, connections) for output in given["outputs"]),
        given["errors"],
        tuple(Included(*one) for one in given["included"]),
        given["envelope"],
        None if key is None else format_from_json(key, connections),
        Limit(*given["limit"]),
        given["max_errors"],
        dict(given["options"]),
    )


def _output(output: Output, kind: str) -> dict[str, Any]:
    return {
        "name": output.name,
        "shard": output.shard,
        "format": format_to_json(output.format, kind),
        "plan": plans.to_json(output.plan),
        "table": output.table,
        "before": None if output.before is None else plans.to_json(output.before),
        "hidden": output.hidden,
    }


def _read_output(given: Mapping[str, Any], connections: Connections) -> Output:
    before = given["before"]
    return Output(
        given["name"],
        given["shard"],
        format_from_json(given["format"], connections),
        plans.from_json(given["plan"]),
        given["table"],
        None if before is None else plans.from_json(before),
        given["hidden"],
    )


def connections_of(given: Mapping[str, Any]) -> set[str]:
    """The connections that a source in JSON names."""
    found = {given["upstream"].get("connection")}
    formats = [given["key_format"], *(output["format"] for output in given["outputs"])]
    for one in formats:
        found.add(((one or {}).get("registry") or {}).get("connection"))
    return found - {None}


# ---------------------------------------------------------------- formats


def format_to_json(format_: Format, kind: str) -> dict[str, Any]:
    """A format as JSON; one that is not of `decode/` is that of an upstream of this kind."""
    match format_:
        case Json():
            return {"kind": "json"}
        case Plain(is_text):
            return {"kind": "text" if is_text else "bytes"}
        case Csv(names, header, delimiter):
            return {"kind": "csv", "names": list(names), "header": header, "delimiter": delimiter}
        case Avro(schema, registry):
            return {
                "kind": "avro",
                "schema": schema,
                "registry": None if registry is None else _registry(registry),
            }
        case Parquet(columns):
            return {"kind": "parquet", "columns": [[name, type_to_json(type_)] for name, type_ in columns]}
        case _:
            own: dict[str, Any] = cast("Any", format_).to_json()
            return {**own, "kind": kind}


def format_from_json(given: Mapping[str, Any], connections: Connections) -> Format:
    """A format from JSON."""
    match given["kind"]:
        case "json":
            return Json()
        case "text" | "bytes":
            return Plain(given["kind"] == "text")
        case "csv":
            return Csv(tuple(given["names"]), given["header"], given["delimiter"])
        case "avro":
            kept = given["registry"]
            return Avro(given["schema"], None if kept is None else _registry_again(kept, connections))
        case "parquet":
            return Parquet(tuple((name, type_from_json(type_)) for name, type_ in given["columns"]))
        case kind:
            return connect.format_again(kind, given)


def registry_of(connection: Connection) -> Registry:
    """The schema registry of a connection."""
    user, password = connection.get("username", connection.get("user", "")), connection.get("password", "")
    return Registry(str(connection.get("url", "")), str(user), str(password), connection.name)


def _registry(registry: Registry) -> dict[str, Any]:
    return {"connection": registry.connection} if registry.connection else {"url": registry.url}


def _registry_again(kept: Mapping[str, Any], connections: Connections) -> Registry:
    return registry_of(connections(kept["connection"])) if "connection" in kept else Registry(kept["url"])
