"""A Catalyst expression as a plain tree, fetched from the JVM in one call.

`toJSON()` returns all nodes in preorder, each with its class, its fields and its number of children:

    (ts + INTERVAL '30' DAY) > TIMESTAMP '2024-01-31 00:00:00'
    → GreaterThan 2 · TimestampAddInterval 2 · AttributeReference ts · Literal 2592000000000 · Literal 2024-01-31 00:00:00

The text omits some things and prints others for people. What is exact in it is read from it; the rest is fetched from the node
that needs it, whose position in preorder is also its number on the JVM (`expression.apply(n)`):

| lost | fetched by |
|---|---|
| a timestamp, printed in the session's zone | `value()`: microseconds |
| bytes, calendar intervals | `value()` |
| the set of an `InSet` | one `mkString` with a separator that cannot occur |
| the escape of a `Like`, the options of `from_json`, the type of a decimal sum | the getter of that name |
| evalMode (ANSI, LEGACY, TRY) | not needed: see `value.py` |
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

from tidegate.expr.model import Literal, Type, types

_TYPES = {
    "boolean": types.BOOL,
    "short": types.INT2,
    "integer": types.INT4,
    "long": types.INT8,
    "float": types.FLOAT4,
    "double": types.FLOAT8,
    "string": types.TEXT,
    "binary": types.BYTEA,
    "date": types.DATE,
    "timestamp": types.TIMESTAMPTZ,
    "timestamp_ntz": types.TIMESTAMP,
    "interval": types.INTERVAL,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)$")
_DAY = re.compile(r"\d{4}-\d\d-\d\d$")
_REPLACED = "\ufffd"
"""What invalid UTF-8 is printed as: a string that contains it may have been another one."""


def type_of(spark: object) -> Type | None:
    """Returns our type for the JSON name of a Spark type; None if there is none.

    Intervals of days and seconds are microseconds, those of years and months are months: plain numbers, as in Spark. tinyint,
    collated strings and nested types have no counterpart.
    """
    if not isinstance(spark, str):
        return None
    decimal = _DECIMAL.match(spark)
    if decimal:
        return types.numeric(int(decimal[1]), int(decimal[2]))
    if spark.startswith("interval "):
        return types.INT4 if "month" in spark or "year" in spark else types.INT8
    return _TYPES.get(spark)


def field_at(struct: object, at: int) -> tuple[str, object] | None:
    """Returns name and type of a field of a Spark struct type in JSON; None if the type is no struct."""
    if not isinstance(struct, dict) or struct.get("type") != "struct":
        return None
    field = struct["fields"][at]
    return field["name"], field["type"]


@dataclass(frozen=True, eq=False)
class CatalystNode:
    """A node: its class without the package, fields, children and position in preorder."""

    kind: str
    fields: dict[str, Any]
    children: tuple[CatalystNode, ...]
    root: Any = field(repr=False)
    at: int

    @property
    def java(self) -> Any:
        """The node in the JVM."""
        return self.root.apply(self.at)

    @property
    def zone(self) -> str | None:
        """The time zone in which the node computes."""
        zone = self.fields.get("timeZoneId")
        return zone if isinstance(zone, str) else None

    def struct(self) -> object:
        """Returns the Spark type of a column, or of a field of one.

        Spark reads only the fields of a struct that a query needs, and numbers these: `r.y` may be field 0 although x comes before
        it. And users may write `r.Y`. So fields are identified by the names in this type.
        """
        if self.kind == "AttributeReference":
            return self.fields["dataType"]
        if self.kind == "JsonToStructs":
            schema = self.fields["schema"]
            return json.loads(schema) if isinstance(schema, str) else schema
        named = (
            field_at(self.children[0].struct(), self.fields["ordinal"])
            if self.kind == "GetStructField"
            else None
        )
        return None if named is None else named[1]

    def result_type(self) -> Type | None:
        """Returns the type of the node, fetched from the JVM."""
        return type_of(json.loads(self.java.dataType().json()))

    @property
    def is_value(self) -> bool:
        """Whether this is a literal other than NULL."""
        return self.kind == "Literal" and self.fields.get("value") is not None

    def constant(self) -> Any:
        """Returns the Python value of a literal; None for NULL and for other nodes."""
        constant = literal(self) if self.kind == "Literal" else None
        return None if constant is None else constant.value.as_py()

    def set_of(self) -> pa.Array | None:
        """Returns the elements of an `InSet`; None if we do not have their type."""
        of = self.children[0].result_type()
        if of is None or of.is_float or of in (types.BYTEA, types.INTERVAL):
            return None  # boxed floats are compared by bits: -0.0 is not in a set with 0.0
        elements, separator = self.java.hset(), uuid4().hex
        texts: list[str | None] = elements.mkString(separator).split(separator)
        if elements.contains(None):
            texts[texts.index("null")] = None
        if of == types.TEXT and any(text is not None and _REPLACED in text for text in texts):
            return None
        return pa.array([None if text is None else _internal(text, of) for text in texts], of.arrow)


def tree_of(expression: Any) -> CatalystNode:
    """Fetches the whole tree of a Catalyst expression."""
    nodes = json.loads(expression.toJSON())
    pending: list[CatalystNode] = []
    for at in range(len(nodes) - 1, -1, -1):  # from the end, children come before their parent
        fields = nodes[at]
        count = fields["num-children"]
        children = tuple(reversed(pending[len(pending) - count :])) if count else ()
        del pending[len(pending) - count :]
        kind = fields["class"].rpartition(".")[2]
        pending.append(CatalystNode(kind, fields, children, expression, at))
    (root,) = pending
    return root


def literal(node: CatalystNode) -> Literal | None:
    """Returns a literal exactly; None if its type or value has no counterpart."""
    spark, text = node.fields["dataType"], node.fields.get("value")
    type_ = type_of(spark)
    if spark == "void":
        return Literal(pa.scalar(None, pa.string()), types.TEXT)
    if type_ is None:
        return None
    if text is None:
        return Literal(pa.scalar(None, type_.arrow), type_)
    if type_ == types.TIMESTAMPTZ:
        return Literal(pa.scalar(node.java.value(), type_.arrow), type_)
    if type_ == types.BYTEA:
        return Literal(pa.scalar(bytes(node.java.value()), type_.arrow), type_)
    if type_ == types.INTERVAL:
        interval = node.java.value()
        months, days, micros = (get_field(interval, name) for name in ("months", "days", "microseconds"))
        parts = (months, days, micros * 1000)
        return Literal(pa.scalar(parts, type_.arrow), type_)
    if type_ == types.DATE:
        days = date.fromisoformat(text) if _DAY.match(text) else node.java.value()
        return Literal(pa.scalar(days, type_.arrow), type_)
    if type_ == types.TEXT and _REPLACED in text:
        return None
    return Literal(pa.scalar(_internal(text, type_), type_.arrow), type_)


def _internal(text: str, type_: Type) -> Any:
    """Parses Spark's text of an internal value: days and microseconds are numbers."""
    if type_ == types.BOOL:
        return text == "true"
    if type_ == types.TEXT:
        return text
    if type_.is_float:
        return float(text)  # Infinity and NaN are spelled as Python reads them
    return Decimal(text) if type_.scale is not None else int(text)
