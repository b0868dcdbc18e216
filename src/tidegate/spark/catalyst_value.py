"""What a Catalyst expression is translated to, and the register of what translates which node.

A `Value` speaks of Spark's value s in every row:

| | |
|---|---|
| `low`, `high` | s lies between; the same expression twice where the translation is exact |
| one of them fails | nothing is said of that row |
| `sure` | s is NULL just where `low` and `high` are; else s may also be NULL where they are not |
| `loose` | text out of JSON, whose numbers, lists and maps Spark may spell otherwise than we do |
| `raw` | a plain number that stands for something else: a time or an interval in microseconds, or months |

"Nothing is said" is what makes most nodes simple. A part is skipped only if no row of it can fail in our semantics, so a
function may fail where Spark has a value or NULL, and the part is read. `x + 1` of the greatest bigint is an error here; in
Spark it is one under ANSI, NULL under TRY and the least bigint under LEGACY: the one translation is right for all three, and the
mode need not be known. Never the other way round: where Spark fails, so must we, or the error would be lost.

Times in a zone whose clock changes are not always ours: an hour that comes twice is the first for Spark and the second here.
Such values are enclosed: `low` and `high` differ by as much as the zone's offsets do, and comparisons take the end that says
more (`catalyst_condition.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import tidegate.expr.functions  # noqa: F401  # fills the registry
from tidegate.expr import build
from tidegate.expr.function import REGISTRY
from tidegate.expr.tree import Call, Column, Expr
from tidegate.expr.types import INT4, INT8, TEXT, Kind, Type
from tidegate.spark.catalyst_tree import Node, field_at, literal


@dataclass(frozen=True)
class Value:
    """Spark's value, enclosed; see the module's docstring."""

    low: Expr
    high: Expr
    sure: bool = True
    loose: bool = False
    raw: bool = False

    @property
    def type(self) -> Type:
        """Our type of both ends."""
        return self.low.type

    @property
    def is_exact(self) -> bool:
        """Whether the value is known, spelled as Spark does, and stands for itself."""
        return self.low is self.high and not self.loose and not self.raw

    def rising(self, of: Callable[[Expr], Expr]) -> Value:
        """A function that keeps the order, applied to both ends."""
        low = of(self.low)
        return replace(self, low=low, high=low if self.low is self.high else of(self.high))


def exactly(expr: Expr, *of: Value) -> Value:
    """An exact value, as sure as those that it was made of."""
    return Value(expr, expr, all(value.sure for value in of))


Translator = Callable[["Context", Node], Value | None]
TRANSLATORS: dict[str, Translator] = {}


def node(*kinds: str) -> Callable[[Translator], Translator]:
    """Registers what translates nodes of these classes."""

    def register(translator: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(kinds, translator))
        return translator

    return register


@dataclass(frozen=True)
class Context:
    """What a translation knows: the collection's columns, by the names that the relation shows."""

    columns: Mapping[str, tuple[int, Type]]

    def value(self, given: Node) -> Value | None:
        """The translation of any node, or None."""
        translator = TRANSLATORS.get(given.kind)
        return None if translator is None else translator(self, given)

    def exact(self, given: Node) -> Value | None:
        """The translation of a node, if it is exact."""
        found = self.value(given)
        return found if found is not None and found.is_exact else None

    def exacts(self, given: Node) -> list[Value] | None:
        """The translations of all children, if all are exact."""
        found = [value for child in given.children if (value := self.exact(child)) is not None]
        return found if len(found) == len(given.children) else None


def called(name: str, *values: Value) -> Value:
    """A function of exact values."""
    return exactly(build.call(name, *(value.low for value in values)), *values)


def failure(type_: Type) -> Expr:
    """An expression that fails for every row: where nothing can be said."""
    one, zero = build.literal(1, INT4), build.literal(0, INT4)
    text = build.cast(build.call("/", one, zero), TEXT)
    return text if type_ == TEXT else build.cast(text, type_)


@node("AttributeReference")
def attribute(context: Context, given: Node) -> Value | None:
    """A column. jsonb is a string on Spark's side, its canonical text; a time of day its microseconds."""
    index, type_ = context.columns.get(given.fields["name"], (-1, TEXT))
    if index < 0 or not _read_as(type_, given.fields["dataType"]):
        return None
    return exactly(_as_read(Column(index, type_, given.fields["name"])))


def _as_read(expr: Expr) -> Expr:
    """What Spark reads a column, a field or an element as."""
    match expr.type.kind:
        case Kind.JSONB:
            return build.cast(expr, TEXT)
        case Kind.MZ_TIMESTAMP:
            return build.cast(expr, INT8)
        case Kind.TIME:
            seconds = build.call("extract", build.literal("epoch", TEXT), expr)
            return build.cast(build.call("*", seconds, build.literal(1_000_000, INT4)), INT8)
        case _:
            return expr


def _read_as(type_: Type, spark: object) -> bool:
    """Whether Spark reads a column of our type as this type of its own."""
    if isinstance(spark, dict):
        return type_.is_nested
    match type_.kind:
        case Kind.JSONB | Kind.TEXT:
            return spark == "string"
        case Kind.UUID:
            return spark == "binary"
        case Kind.NUMERIC:
            return spark == f"decimal({type_.precision},{type_.scale})"
        case Kind.INTERVAL | Kind.UNKNOWN:
            return False
        case kind:
            return spark == _NAMES.get(kind)


_NAMES = {
    Kind.BOOL: "boolean", Kind.INT2: "short", Kind.INT4: "integer", Kind.INT8: "long", Kind.FLOAT4: "float",
    Kind.FLOAT8: "double", Kind.BYTEA: "binary", Kind.DATE: "date", Kind.TIMESTAMP: "timestamp_ntz",
    Kind.TIMESTAMPTZ: "timestamp", Kind.TIME: "long", Kind.MZ_TIMESTAMP: "long",
}  # fmt: skip


@node("Literal")
def constant(context: Context, given: Node) -> Value | None:
    """A constant."""
    found = literal(given)
    if found is None:
        return None
    return replace(exactly(found), raw=str(given.fields["dataType"]).startswith("interval "))


@node(
    "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero", "PromotePrecision",
    "UnaryPositive", "Alias",
)  # fmt: skip
def same(context: Context, given: Node) -> Value | None:
    """Marks for the optimizer, and what changes no value that is compared: NaN and zero are one already."""
    return context.value(given.children[0])


@node("GetStructField")
def struct_field(context: Context, given: Node) -> Value | None:
    """A field of a record; those of `from_json` are read in `catalyst_json.py`."""
    child = given.children[0]
    if child.kind in ("JsonToStructs", "GetStructField"):
        found = TRANSLATORS["from_json"](context, given)
        if found is not None:
            return found
    record = context.exact(child)
    if record is None or record.type.kind is not Kind.RECORD:
        return None
    named = field_at(child.struct(), given.fields["ordinal"])
    places = [i for i, (name, _) in enumerate(record.type.fields) if named is not None and name == named[0]]
    if len(places) != 1:
        return None
    at, type_ = places[0], record.type.fields[places[0]][1]
    field = Call(REGISTRY.overloads("field")[0], (record.low, build.literal(at, INT4)), type_)
    return exactly(_as_read(field), record)


@node("GetArrayItem", "ElementAt")
def element(context: Context, given: Node) -> Value | None:
    """An element of an array by a constant; where one beyond the end is an error, nothing is said."""
    array, at = context.exact(given.children[0]), given.children[1].constant()
    if array is None or array.type.element is None or not isinstance(at, int) or given.fields["failOnError"]:
        return None
    first = 0 if given.kind == "GetArrayItem" else 1
    if at < first or given.fields.get("defaultValueOutOfBound"):
        return None
    found = build.call("subscript", array.low, build.literal(at - first + 1, INT8))
    return exactly(_as_read(found), array)
