"""What a Catalyst expression is translated to, and the registry of translators.

A `SparkValue` describes Spark's value s in every row:

| | |
|---|---|
| `low`, `high` | s lies between them; the same expression twice if the translation is exact |
| one of them fails | nothing is known about s in that row |
| `sure` | s is NULL exactly where `low` and `high` are; else s may also be NULL where they are not |
| `loose` | text out of JSON, whose numbers, lists and maps Spark may spell differently |
| `raw` | a plain number that stands for something else: a time or an interval in microseconds, or months |

"Nothing is known" makes most nodes simple. A part is pruned only if no row of it can fail in our semantics, so our function may
fail where Spark has a value or NULL: the part is read. `x + 1` of the greatest bigint is an error here; in Spark it is an error in
ANSI mode, NULL in TRY mode and the least bigint in LEGACY mode: one translation is right for all three, and the mode need not be
known. Never the other way round: where Spark fails, we must fail too, or the error would be lost.

Times in a zone whose clock changes may differ from ours: an hour that occurs twice is the first one in Spark and the second here.
Such values are enclosed: `low` and `high` differ by as much as the zone's offsets do, and comparisons use the end that is true
sooner (`conditions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidegate.expr.model import REGISTRY, Call, Column, Expr, Kind, Type, build, types
from tidegate.spark.translate.catalyst_tree import CatalystNode, field_at, literal


@dataclass(frozen=True)
class SparkValue:
    """Spark's value between two bounds; see the table above."""

    low: Expr
    high: Expr
    sure: bool = True
    loose: bool = False
    raw: bool = False

    @property
    def type(self) -> Type:
        """The type of both bounds."""
        return self.low.type

    @property
    def is_exact(self) -> bool:
        """Whether `low` is Spark's value itself."""
        return self.low is self.high and not self.loose and not self.raw

    def rising(self, of: Callable[[Expr], Expr]) -> SparkValue:
        """Applies a function that keeps the order to both bounds."""
        low = of(self.low)
        return replace(self, low=low, high=low if self.low is self.high else of(self.high))


def exact_value(expr: Expr, *of: SparkValue) -> SparkValue:
    """Returns an exact value that is sure if all values that it is computed from are."""
    return SparkValue(expr, expr, all(value.sure for value in of))


Translator = Callable[["TranslationScope", CatalystNode], SparkValue | None]
TRANSLATORS: dict[str, Translator] = {}


def translates(*kinds: str) -> Callable[[Translator], Translator]:
    """Registers a function as the translator of nodes of these classes."""

    def register(translator: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(kinds, translator))
        return translator

    return register


@dataclass(frozen=True)
class TranslationScope:
    """The columns of the collection that a translation may use, by the names that the relation shows."""

    columns: Mapping[str, tuple[int, Type]]

    def value(self, node: CatalystNode) -> SparkValue | None:
        """Translates a node; None if there is no translation."""
        translator = TRANSLATORS.get(node.kind)
        return None if translator is None else translator(self, node)

    def exact(self, node: CatalystNode) -> SparkValue | None:
        """Translates a node; None if the translation is not exact."""
        value = self.value(node)
        return value if value is not None and value.is_exact else None

    def exacts(self, node: CatalystNode) -> list[SparkValue] | None:
        """Translates all children; None if one of them is not exact."""
        values = [value for child in node.children if (value := self.exact(child)) is not None]
        return values if len(values) == len(node.children) else None


def call(name: str, *values: SparkValue) -> SparkValue:
    """A function of exact values."""
    return exact_value(build.call(name, *(value.low for value in values)), *values)


def failure(type_: Type) -> Expr:
    """An expression that fails for every row: where nothing can be said."""
    one, zero = build.literal(1, types.INT4), build.literal(0, types.INT4)
    text = build.cast(build.call("/", one, zero), types.TEXT)
    return text if type_ == types.TEXT else build.cast(text, type_)


@translates("AttributeReference")
def attribute(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """A column. jsonb is a string on Spark's side, its canonical text; a time of day its microseconds."""
    index, type_ = scope.columns.get(node.fields["name"], (-1, types.TEXT))
    if index < 0 or not _read_as(type_, node.fields["dataType"]):
        return None
    return exact_value(_as_read(Column(index, type_, node.fields["name"])))


def _as_read(expr: Expr) -> Expr:
    """Returns what Spark reads for a column, a field or an element."""
    match expr.type.kind:
        case Kind.JSONB:
            return build.cast(expr, types.TEXT)
        case Kind.MZ_TIMESTAMP:
            return build.cast(expr, types.INT8)
        case Kind.TIME:
            seconds = build.call("extract", build.literal("epoch", types.TEXT), expr)
            return build.cast(build.call("*", seconds, build.literal(1_000_000, types.INT4)), types.INT8)
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


@translates("Literal")
def constant(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a constant."""
    value = literal(node)
    if value is None:
        return None
    return replace(exact_value(value), raw=str(node.fields["dataType"]).startswith("interval "))


@translates(
    "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero", "PromotePrecision",
    "UnaryPositive", "Alias",
)  # fmt: skip
def same(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates marks of the optimizer, and nodes that change no comparison."""
    return scope.value(node.children[0])


@translates("GetStructField")
def struct_field(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a field of a record; `json.py` translates fields of `from_json`."""
    child = node.children[0]
    if child.kind in ("JsonToStructs", "GetStructField"):
        value = TRANSLATORS["from_json"](scope, node)
        if value is not None:
            return value
    record = scope.exact(child)
    if record is None or record.type.kind is not Kind.RECORD:
        return None
    named = field_at(child.struct(), node.fields["ordinal"])
    positions = [
        i for i, (name, _) in enumerate(record.type.fields) if named is not None and name == named[0]
    ]
    if len(positions) != 1:
        return None
    at, type_ = positions[0], record.type.fields[positions[0]][1]
    field = Call(REGISTRY.overloads("field")[0], (record.low, build.literal(at, types.INT4)), type_)
    return exact_value(_as_read(field), record)


@translates("GetArrayItem", "ElementAt")
def element(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates an element at a constant position, unless one beyond the end is an error in Spark."""
    array, at = scope.exact(node.children[0]), node.children[1].constant()
    if array is None or array.type.element is None or not isinstance(at, int) or node.fields["failOnError"]:
        return None
    first = 0 if node.kind == "GetArrayItem" else 1
    if at < first or node.fields.get("defaultValueOutOfBound"):
        return None
    item = build.call("subscript", array.low, build.literal(at - first + 1, types.INT8))
    return exact_value(_as_read(item), array)
