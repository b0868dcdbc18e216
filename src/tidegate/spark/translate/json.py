"""JSON out of a jsonb column: get_json_object, from_json and variant_get, as our own `->` and `->>`.

Spark sees a jsonb column as a string of canonical JSON. Both follow a path of keys and indexes alike. They differ in how the value
becomes text: Spark spells a fraction as Java does (`1.0E-5` where we have `0.00001`), and may write lists and maps differently. So
the text is *loose*, and is used only where that does not matter:

| use | why it is right |
|---|---|
| cast to an integer or a double | a fraction is no integer here (an error), and both spellings are the same double |
| compared with a constant that does not begin like a number, list or map | the first letter decides, in both spellings |
| compared with other constants | a value that is no string and no boolean fails (`strict`) |
| IS NOT NULL | |

Other uses of such a text are not translated. Values are not `sure`: Spark returns NULL for a document in which any number has more
than a thousand digits, and `from_json` returns NULL for a value of another type than the schema's, where a cast would read it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from pyspark import SparkContext

from tidegate.expr.model import REGISTRY, Call, Expr, Kind, Literal, Type, build, types
from tidegate.spark.translate.catalyst_tree import CatalystNode, field_at, type_of
from tidegate.spark.translate.value import SparkValue, TranslationScope, exact_value, failure, translates

_STEP = re.compile(r"\.([^.\[\]'\"*]+)|\['([^'*?]+)'\]|\[(\d{1,9})\]")
_AMBIGUOUS = "-0123456789[{"
_FAILING_TYPES = ["array", "number", "object"]

Path = tuple[str | int, ...]


def path_of(text: object) -> Path | None:
    """Parses `$.a['b'][0]` into keys and indexes; None if it contains anything else."""
    if not isinstance(text, str) or not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            return None
        steps.append(int(step[3]) if step[3] else step[1] or step[2])
        at = step.end()
    return tuple(steps) or None


def document(scope: TranslationScope, node: CatalystNode) -> Expr | None:
    """Returns the jsonb column or field that a node reads as a string."""
    value = scope.exact(node)
    text = None if value is None else value.low
    if not isinstance(text, Call) or text.function.name != "cast" or text.args[0].type != types.JSONB:
        return None
    return text.args[0]


def _step(operator: str, of: Expr, step: str | int) -> Expr:
    """Returns the value of a key, or an element of a list; Spark has no element of a scalar."""
    if isinstance(step, str):
        return build.call(operator, of, build.literal(step, types.TEXT))
    (function,) = (f for f in REGISTRY.overloads(operator) if f.params[1] == types.INT4 and f.hidden)
    return Call(function, (of, build.literal(step, types.INT4)), function.result_type([]))


def _text(of: Expr, path: Path) -> SparkValue:
    """Returns the value at a path as text."""
    text = _step("->>", reduce(partial(_step, "->"), path[:-1], of), path[-1])
    return SparkValue(text, text, sure=False, loose=True)


@translates("GetJsonObject")
def get_json_object(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates get_json_object(payload, '$.a.b') with a constant path."""
    of, path = document(scope, node.children[0]), path_of(node.children[1].constant())
    return None if of is None or path is None else _text(of, path)


def strict(value: SparkValue, other_side: SparkValue) -> SparkValue | None:
    """Makes a loose text exact for a comparison with `other_side`; returns other values as they are."""
    if not value.loose:
        return value
    other = other_side.low
    if not isinstance(other, Literal) or other_side.type.kind is not Kind.TEXT:
        return None
    text = other.value.as_py()
    if text is None or not text or text[0] not in _AMBIGUOUS:
        return replace(value, loose=False)
    read = value.low
    assert isinstance(read, Call)
    of, step = read.args
    assert isinstance(step, Literal)
    kind = build.call("jsonb_typeof", _step("->", of, step.value.as_py()))
    wrong = build.call("in", kind, build.literal(_FAILING_TYPES, types.array(types.TEXT)))
    text_or_failure = build.case([(wrong, failure(types.TEXT))], read)
    return SparkValue(text_or_failure, text_or_failure, value.sure)


def number_from_json(scope: TranslationScope, node: CatalystNode, target: Type) -> SparkValue | None:
    """Translates a cast of a value out of JSON to a number or boolean; None if the node reads no JSON."""
    if node.kind == "VariantGet" and node.fields.get("targetType") == "variant":
        value = _variant_text(scope, node)
    elif node.kind in ("GetJsonObject", "GetStructField", "VariantGet"):
        value = scope.value(node)
    else:
        return None
    if value is None or not value.loose:
        return None
    return _read(value, target)


def _read(text: SparkValue, target: Type) -> SparkValue | None:
    """Returns a loose text as a number: an integer, a double, or a whole number as decimal."""
    plain = replace(text, loose=False)
    if target in types.INTEGERS or target == types.FLOAT8:
        return plain.rising(lambda expr: build.cast(expr, target))
    if target.kind is Kind.NUMERIC:
        return plain.rising(lambda expr: build.cast(build.cast(expr, types.INT8), target))
    return None


# ---------------------------------------------------------------- variants


def _variant_text(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    source, path = node.children[0], path_of(node.children[1].constant())
    if source.kind != "StaticInvoke" or source.fields.get("functionName") != "parseJson" or path is None:
        return None
    of = document(scope, source.children[0])
    return None if of is None else _text(of, path)


@translates("VariantGet")
def variant_get(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates [try_]variant_get(parse_json(payload), path, type) as a cast of the text."""
    target = type_of(node.fields["targetType"])
    text = _variant_text(scope, node)
    if text is None or target is None:
        return None
    return text if target == types.TEXT else _read(text, target)


# ---------------------------------------------------------------- from_json


@translates("from_json")
def from_json(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates `from_json(payload, schema).a.b`; a list at the top fails: Spark reads its first item."""
    names: list[str] = []
    at, target = node, type_of(node.struct())
    while at.kind == "GetStructField":
        named = field_at(at.children[0].struct(), at.fields["ordinal"])
        if named is None:
            return None
        names.append(named[0])
        at = at.children[0]
    if at.kind != "JsonToStructs" or not at.java.options().isEmpty():
        return None
    of = document(scope, at.children[0])
    path = tuple(reversed(names))
    if of is None or target is None or (target == types.TEXT and path[0] in _corrupt()):
        return None
    read = _from_field(_text(of, path), target)
    if read is None:
        return None
    is_list = build.call("=", build.call("jsonb_typeof", of), build.literal("array", types.TEXT))
    if read.loose:
        return None
    return read.rising(lambda expr: build.case([(is_list, failure(expr.type))], expr))


def _corrupt() -> tuple[str, str]:
    """Returns the names of the field that Spark fills with a document that does not fit the schema."""
    context: Any = SparkContext._active_spark_context
    conf = context._jvm.org.apache.spark.sql.internal.SQLConf.get()
    return "_corrupt_record", str(conf.columnNameOfCorruptRecord())


def _from_field(text: SparkValue, target: Type) -> SparkValue | None:
    """Returns the value of a field: numbers as they stand, text only if it is a string."""
    if target in types.INTEGERS or target in (types.FLOAT8, types.BOOL) or target.kind is Kind.NUMERIC:
        return replace(text, loose=False).rising(lambda expr: build.cast(expr, target))
    if target != types.TEXT:
        return None
    return strict(text, exact_value(build.literal(_AMBIGUOUS, types.TEXT)))
