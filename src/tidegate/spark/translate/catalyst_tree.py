"""A Catalyst expression as a plain tree, fetched from the JVM in one call.

`toJSON()` gives all nodes in preorder, each with its class, its fields and how many children follow it:

    (ts + INTERVAL '30' DAY) > TIMESTAMP '2024-01-31 00:00:00'
    → GreaterThan 2 · TimestampAddInterval 2 · AttributeReference ts · Literal 2592000000000 · Literal 2024-01-31 00:00:00

The text leaves some things out, and prints others as people read them. What is exact in it is read from it; the rest is
fetched from the one node that needs it, whose place in preorder is also its number on the JVM (`expression.apply(n)`):

| lost | fetched by |
|---|---|
| a timestamp, which is printed by the session's clock | `value()`: microseconds |
| bytes, calendar intervals | `value()` |
| the set of an `InSet` | one `mkString` with a separator that cannot occur |
| the escape of a `Like`, the options of `from_json`, the type of a decimal sum | the getter of that name |
| evalMode (ANSI, LEGACY, TRY) | not needed: `catalyst.py` says why |
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pyarrow as pa
from py4j.java_gateway import get_field

from tidegate.expr.tree import Literal
from tidegate.expr.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    numeric,
)

_TYPES = {
    "boolean": BOOL,
    "short": INT2,
    "integer": INT4,
    "long": INT8,
    "float": FLOAT4,
    "double": FLOAT8,
    "string": TEXT,
    "binary": BYTEA,
    "date": DATE,
    "timestamp": TIMESTAMPTZ,
    "timestamp_ntz": TIMESTAMP,
    "interval": INTERVAL,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)$")
_DAY = re.compile(r"\d{4}-\d\d-\d\d$")
_REPLACED = "\ufffd"
"""What bytes that are no UTF-8 are printed as: a string that shows it may have been another."""


def type_of(spark: object) -> Type | None:
    """The type that a Spark type, as JSON names it, is translated as.

    Intervals of days and seconds are microseconds, those of years and months are months: both plain numbers, as in
    Spark. Bytes of one (tinyint), collated strings and nested types have no counterpart here.
    """
    if not isinstance(spark, str):
        return None
    found = _DECIMAL.match(spark)
    if found:
        return numeric(int(found[1]), int(found[2]))
    if spark.startswith("interval "):
        return INT4 if "month" in spark or "year" in spark else INT8
    return _TYPES.get(spark)


def field_at(struct: object, at: int) -> tuple[str, object] | None:
    """Name and type of a field of a Spark struct, as JSON describes it; None for what is no struct."""
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        return None
    found = struct["fields"][at]
    return found["name"], found["type"]


@dataclass(frozen=True, eq=False)
class Node:
    """One node: the class without its package, its fields, its children, and its place in preorder."""

    kind: str
    fields: dict[str, Any]
    children: tuple[Node, ...]
    root: Any = field(repr=False)
    at: int

    @property
    def java(self) -> Any:
        """The node on the JVM."""
        return self.root.apply(self.at)

    @property
    def zone(self) -> str | None:
        """The time zone that the node works in."""
        found = self.fields.get("timeZoneId")
        return found if isinstance(found, str) else None

    def struct(self) -> object:
        """The Spark type of a column, or of a field of one.

        Spark reads no more of a struct than a query needs, and numbers the fields that are left: `r.y` may be field 0 of a
        column that has x before it. And users may spell `r.Y`. So fields are known by the names in this type alone.
        """
        if self.kind == "AttributeReference":
            return self.fields["dataType"]
        if self.kind == "JsonToStructs":
            schema = self.fields["schema"]
            return json.loads(schema) if isinstance(schema, str) else schema
        found = (
            field_at(self.children[0].struct(), self.fields["ordinal"])
            if self.kind == "GetStructField"
            else None
        )
        return None if found is None else found[1]

    def result_type(self) -> Type | None:
        """The node's type, where it must be asked for."""
        return type_of(json.loads(self.java.dataType().json()))

    @property
    def is_value(self) -> bool:
        """Whether this is a literal other than NULL."""
        return self.kind == "Literal" and self.fields.get("value") is not None

    def constant(self) -> Any:
        """The Python value of a literal; None for NULL and for what is no literal."""
        found = literal(self) if self.kind == "Literal" else None
        return None if found is None else found.value.as_py()

    def set_of(self) -> pa.Array | None:
        """The elements of an `InSet` whose child has a type that we know."""
        of = self.children[0].result_type()
        if of is None or of.is_float or of in (BYTEA, INTERVAL):
            return None  # boxed floats are looked up bit by bit: -0.0 is not found among 0.0
        given, separator = self.java.hset(), uuid4().hex
        texts: list[str | None] = given.mkString(separator).split(separator)
        if given.contains(None):
            texts[texts.index("null")] = None
        if of == TEXT and any(text is not None and _REPLACED in text for text in texts):
            return None
        return pa.array([None if text is None else _internal(text, of) for text in texts], of.arrow)


def tree_of(expression: Any) -> Node:
    """The whole tree below a Catalyst expression on the JVM."""
    listed = json.loads(expression.toJSON())
    end = len(listed)
    pending: list[Node] = []
    for at in range(end - 1, -1, -1):  # children come before their parent when read from the end
        fields = listed[at]
        count = fields["num-children"]
        children = tuple(reversed(pending[len(pending) - count :])) if count else ()
        del pending[len(pending) - count :]
        kind = fields["class"].rpartition(".")[2]
        pending.append(Node(kind, fields, children, expression, at))
    (root,) = pending
    return root


def literal(node: Node) -> Literal | None:
    """A literal, exactly; None if its type or its value has no counterpart."""
    spark, text = node.fields["dataType"], node.fields.get("value")
    type_ = type_of(spark)
    if spark == "void":
        return Literal(pa.scalar(None, pa.string()), TEXT)
    if type_ is None:
        return None
    if text is None:
        return Literal(pa.scalar(None, type_.arrow), type_)
    if type_ == TIMESTAMPTZ:
        return Literal(pa.scalar(node.java.value(), type_.arrow), type_)
    if type_ == BYTEA:
        return Literal(pa.scalar(bytes(node.java.value()), type_.arrow), type_)
    if type_ == INTERVAL:
        given = node.java.value()
        months, days, micros = (get_field(given, name) for name in ("months", "days", "microseconds"))
        parts = (months, days, micros * 1000)
        return Literal(pa.scalar(parts, type_.arrow), type_)
    if type_ == DATE:
        days = date.fromisoformat(text) if _DAY.match(text) else node.java.value()
        return Literal(pa.scalar(days, type_.arrow), type_)
    if type_ == TEXT and _REPLACED in text:
        return None
    return Literal(pa.scalar(_internal(text, type_), type_.arrow), type_)


def _internal(text: str, type_: Type) -> Any:
    """What Spark prints of a value as it keeps it: days and microseconds as numbers."""
    if type_ == BOOL:
        return text == "true"
    if type_ == TEXT:
        return text
    if type_.is_float:
        return float(text)  # Infinity and NaN are spelled as Python reads them
    return Decimal(text) if type_.scale is not None else int(text)
