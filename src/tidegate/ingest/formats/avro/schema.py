"""Checks of Avro schemas: a few bytes must not decode to endless data.

A schema comes with a file or from a registry, so anyone who can write there controls it. Three kinds are refused:

| schema | effect on a decoder |
|---|---|
| a type that contains itself | recurses as deep as the bytes say |
| an array of values without bytes (`null`, a record without fields) | reads 10**12 of them from six bytes |
| types that contain each other twice, thirty levels deep | expands to a billion fields |
"""

from __future__ import annotations

from typing import Any

from tidegate.errors import UnsupportedError

MAX_TYPES = 20_000
"""The maximum number of types in a schema, counting a named type at each use."""
_RECURSIVE_HINT = "a type that contains itself has no columns: use FORMAT BYTES"


def check_schema(schema: Any) -> None:
    """Raises if a schema is refused."""
    _SchemaCheck().size(schema, "")


class _SchemaCheck:
    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._empty: dict[str, bool] = {}
        self._open: set[str] = set()

    def size(self, schema: Any, space: str) -> int:
        """The number of types in a schema."""
        match schema:
            case str():
                return self._named(schema, space)
            case list():
                return self._sum(schema, space)
            case {"type": "array", "items": items}:
                size = self._sum([items], space)
                if self.empty(items, space):
                    raise UnsupportedError("an Avro array of values that have no bytes is not read")
                return size
            case {"type": "map", "values": values}:
                return self._sum([values], space)
            case {"type": "record" | "error", "fields": list(fields), "name": str(name)}:
                return self._record(schema, fields, name, space)
            case {"type": "fixed" | "enum", "name": str(name)}:
                full = _full(name, schema.get("namespace", space))
                self._sizes[full], self._empty[full] = 1, schema.get("size") == 0
                return 1
            case {"type": inner} if not isinstance(inner, str):
                return self.size(inner, space)
            case _:
                return 1

    def empty(self, schema: Any, space: str) -> bool:
        """Whether a value may be encoded in no bytes. A union has at least one byte: its branch number."""
        match schema:
            case "null":
                return True
            case str():
                return self._empty.get(_full(schema, space), self._empty.get(schema, False))
            case {"type": "record" | "error" | "fixed" | "enum", "name": str(name)}:
                return self._empty.get(_full(name, schema.get("namespace", space)), False)
            case {"type": inner} if not isinstance(inner, list):
                return inner == "null" or (isinstance(inner, dict) and self.empty(inner, space))
            case _:
                return False

    def _record(self, schema: Any, fields: list[Any], name: str, space: str) -> int:
        full = _full(name, schema.get("namespace", space))
        inside = full.rpartition(".")[0]
        self._open.add(full)
        types = [field.get("type") for field in fields if isinstance(field, dict)]
        self._sizes[full] = self._sum(types, inside)
        self._empty[full] = all(self.empty(type_, inside) for type_ in types)
        self._open.discard(full)
        return self._sizes[full]

    def _sum(self, schemas: list[Any], space: str) -> int:
        total = 1
        for schema in schemas:
            total += self.size(schema, space)
            if total > MAX_TYPES:
                raise UnsupportedError(f"the Avro schema has more than {MAX_TYPES:,} types")
        return total

    def _named(self, name: str, space: str) -> int:
        for full in (_full(name, space), name):
            if full in self._open:
                raise UnsupportedError(f'the Avro type "{name}" cannot be read', hint=_RECURSIVE_HINT)
            if full in self._sizes:
                return self._sizes[full]
        return 1


def _full(name: str, space: Any) -> str:
    return name if "." in name or not isinstance(space, str) or not space else f"{space}.{name}"
