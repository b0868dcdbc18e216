"""Converts a source to JSON, for the catalog, and back.

    {"version": 1, "name": "orders_30d", "kind": "kafka", "upstream": {"connection": "k", "topic": "orders"},
     "included": [["offset", "offset", null]], "envelope": "none", "errors": "77…",
     "outputs": [{"name": "orders_30d", "shard": "3f…", "format": {"kind": "json"}, "plan": {…}, "hidden": 2}], …}

Plans are stored as bound (`plan/serialize.py`), with the versions of their functions: the plan that runs in ten years is the one
that was accepted today. Connections are stored by name and looked up when the source is loaded, so a password is stored only once,
and a broker that moves is changed only in its connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import TidegateError
from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.formats.registry import LoadConnection, format_from_json
from tidegate.ingest.protocol import BatchLimit, IncludedColumn, RecordFormat
from tidegate.ingest.upstreams.registry import load_table_format, load_upstream
from tidegate.plan import serialize as plans

VERSION = 1


def source_to_json(source: SourceDefinition) -> dict[str, Any]:
    """Converts a source to JSON, without secrets."""
    limit = source.limit
    return {
        "version": VERSION,
        "name": source.name,
        "kind": source.kind,
        "upstream": source.upstream.to_json(),
        "outputs": [_output(output) for output in source.outputs],
        "errors": source.errors,
        "included": [[column.what, column.name, column.argument] for column in source.included],
        "envelope": source.envelope,
        "key_format": None if source.key_format is None else source.key_format.to_json(),
        "limit": [limit.rows, limit.bytes, limit.files],
        "max_errors": source.max_errors,
        "options": source.options,
    }


def source_from_json(stored: Mapping[str, Any], connections: LoadConnection) -> SourceDefinition:
    """Loads a source from JSON; raises a PlanError if a function of its plans has changed."""
    if stored["version"] > VERSION:
        raise TidegateError(
            f'source "{stored["name"]}" was made by a newer version of Tidegate', hint="upgrade Tidegate"
        )
    named = stored["upstream"].get("connection")
    key = stored["key_format"]
    return SourceDefinition(
        stored["name"],
        stored["kind"],
        load_upstream(stored["kind"], stored["upstream"], None if named is None else connections(named)),
        tuple(_read_output(output, connections) for output in stored["outputs"]),
        stored["errors"],
        tuple(IncludedColumn(*column) for column in stored["included"]),
        stored["envelope"],
        None if key is None else _format(key, connections),
        BatchLimit(*stored["limit"]),
        stored["max_errors"],
        dict(stored["options"]),
    )


def _output(output: SourceOutput) -> dict[str, Any]:
    return {
        "name": output.name,
        "shard": output.shard,
        "format": output.format.to_json(),
        "plan": plans.to_json(output.plan),
        "table": output.table,
        "before": None if output.before is None else plans.to_json(output.before),
        "hidden": output.hidden,
    }


def _read_output(stored: Mapping[str, Any], connections: LoadConnection) -> SourceOutput:
    before = stored["before"]
    return SourceOutput(
        stored["name"],
        stored["shard"],
        _format(stored["format"], connections),
        plans.from_json(stored["plan"]),
        stored["table"],
        None if before is None else plans.from_json(before),
        stored["hidden"],
    )


def connection_names(stored: Mapping[str, Any]) -> set[str]:
    """The names of the connections that a stored source uses."""
    formats = [stored["key_format"], *(output["format"] for output in stored["outputs"])]
    names = {((format_ or {}).get("registry") or {}).get("connection") for format_ in formats}
    return {stored["upstream"].get("connection"), *names} - {None}


def _format(stored: Mapping[str, Any], connections: LoadConnection) -> RecordFormat:
    """Loads a format from JSON; a kind that is not a format is an upstream with tables."""
    return format_from_json(stored, connections) or load_table_format(stored["kind"], stored)
