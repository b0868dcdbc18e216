"""JSON out of a jsonb column: get_json_object, from_json and variant_get, as our own `->` and `->>`.

Spark sees a jsonb column as a string of canonical JSON. A path of keys and indexes is followed alike by both. What differs is
how the found value becomes text: Spark spells a fraction as Java does (`1.0E-5` where we have `0.00001`), and may write lists
and maps otherwise. So the text is *loose*, and is used where that does not matter:

| use | why it is right |
|---|---|
| cast to an integer or a double | a fraction is no integer here (an error), and both spellings are the same double |
| compared with a constant that begins otherwise than a number, list or map does | the first letter decides, in both spellings |
| compared with other constants | what is no string and no boolean fails (`strict`) |
| IS NOT NULL | |

All else of such a text is not translated. Values are not `sure`: Spark gives up a document in which any number has more than a
thousand digits, and `from_json` gives NULL for what has not the type that was asked for, where a cast would read it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from pyspark import SparkContext

from tidegate.expr import build
from tidegate.expr.tree import Call, Expr, Literal
from tidegate.expr.types import (
    BOOL,
    FLOAT8,
    INT4,
    INT8,
    INTEGERS,
    JSONB,
    TEXT,
    Kind,
    Type,
    array,
)
from tidegate.spark.catalyst_tree import Node, field_at, type_of
from tidegate.spark.catalyst_value import Context, Value, exactly, failure, node

_STEP = re.compile(r"\.([^.\[\]'\"*]+)|\['([^'*?]+)'\]|\[(\d{1,9})\]")
_AMBIGUOUS = "-0123456789[{"
_FAILING_TYPES = ["array", "number", "object"]

Path = tuple[str | int, ...]


def path_of(text: object) -> Path | None:
    """The keys and indexes of `$.a['b'][0]`; None if there is anything else in it."""
    if not isinstance(text, str) or not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return None
        steps.append(int(found[3]) if found[3] else found[1] or found[2])
        at = found.end()
    return tuple(steps) or None


def document(context: Context, given: Node) -> Expr | None:
    """The jsonb column, or field, that a node reads as a string."""
    value = context.exact(given)
    text = None if value is None else value.low
    if not isinstance(text, Call) or text.function.name != "cast" or text.args[0].type != JSONB:
        return None
    return text.args[0]


def _inner(of: Expr, path: Path) -> Expr:
    """The value at a path, as JSON."""
    for step in path:
        key = build.literal(step, INT4) if isinstance(step, int) else build.literal(step, TEXT)
        of = build.call("->", of, key)
    return of


def _text(of: Expr, path: Path) -> Value:
    """The value at a path, as text."""
    last = path[-1]
    key = build.literal(last, INT4) if isinstance(last, int) else build.literal(last, TEXT)
    return Value(found := build.call("->>", _inner(of, path[:-1]), key), found, sure=False, loose=True)


@node("GetJsonObject")
def get_json_object(context: Context, given: Node) -> Value | None:
    """get_json_object(payload, '$.a.b') with a constant path."""
    of, path = document(context, given.children[0]), path_of(given.children[1].constant())
    return None if of is None or path is None else _text(of, path)


def strict(value: Value, beside: Value) -> Value | None:
    """A loose text made exact, for comparing it with `beside`; anything else as it is."""
    if not value.loose:
        return value
    other = beside.low
    if not isinstance(other, Literal) or beside.type.kind is not Kind.TEXT:
        return None
    text = other.value.as_py()
    if text is None or not text or text[0] not in _AMBIGUOUS:
        return replace(value, loose=False)
    read = value.low
    assert isinstance(read, Call)
    kind = build.call("jsonb_typeof", build.call("->", *read.args))
    wrong = build.call("in", kind, build.literal(_FAILING_TYPES, array(TEXT)))
    found = build.case([(wrong, failure(TEXT))], read)
    return Value(found, found, value.sure)


def number_from_json(context: Context, given: Node, target: Type) -> Value | None:
    """A cast to a number or boolean of what was read out of JSON; None if the node reads no JSON."""
    if given.kind == "VariantGet" and given.fields.get("targetType") == "variant":
        found = _variant_text(context, given)
    elif given.kind in ("GetJsonObject", "GetStructField", "VariantGet"):
        found = context.value(given)
    else:
        return None
    if found is None or not found.loose:
        return None
    return _read(found, target)


def _read(text: Value, target: Type) -> Value | None:
    """A loose text as a number: an integer, a double, or a decimal of what is whole."""
    plain = replace(text, loose=False)
    if target in INTEGERS or target == FLOAT8:
        return plain.rising(lambda expr: build.cast(expr, target))
    if target.kind is Kind.NUMERIC:
        return plain.rising(lambda expr: build.cast(build.cast(expr, INT8), target))
    return None


# ---------------------------------------------------------------- variants


def _variant_text(context: Context, given: Node) -> Value | None:
    source, path = given.children[0], path_of(given.children[1].constant())
    if source.kind != "StaticInvoke" or source.fields.get("functionName") != "parseJson" or path is None:
        return None
    of = document(context, source.children[0])
    return None if of is None else _text(of, path)


@node("VariantGet")
def variant_get(context: Context, given: Node) -> Value | None:
    """[try_]variant_get(parse_json(payload), path, type): read as a cast of the text would."""
    target = type_of(given.fields["targetType"])
    found = _variant_text(context, given)
    if found is None or target is None:
        return None
    return found if target == TEXT else _read(found, target)


# ---------------------------------------------------------------- from_json


@node("from_json")
def from_json(context: Context, given: Node) -> Value | None:
    """`from_json(payload, schema).a.b`; a list at the top fails, as Spark takes its first element."""
    names: list[str] = []
    at, target = given, type_of(given.struct())
    while at.kind == "GetStructField":
        named = field_at(at.children[0].struct(), at.fields["ordinal"])
        if named is None:
            return None
        names.append(named[0])
        at = at.children[0]
    if at.kind != "JsonToStructs" or not at.java.options().isEmpty():
        return None
    of = document(context, at.children[0])
    path = tuple(reversed(names))
    if of is None or target is None or (target == TEXT and path[0] in _corrupt()):
        return None
    read = _from_field(_text(of, path), target)
    if read is None:
        return None
    listed = build.call("=", build.call("jsonb_typeof", of), build.literal("array", TEXT))
    if read.loose:
        return None
    return read.rising(lambda expr: build.case([(listed, failure(expr.type))], expr))


def _corrupt() -> tuple[str, str]:
    """The field that Spark fills with a whole document that does not fit the schema: no value of the document's."""
    context: Any = SparkContext._active_spark_context
    conf = context._jvm.org.apache.spark.sql.internal.SQLConf.get()
    return "_corrupt_record", str(conf.columnNameOfCorruptRecord())


def _from_field(text: Value, target: Type) -> Value | None:
    """A field's value; strings only where they are strings, numbers as they stand."""
    if target in INTEGERS or target in (FLOAT8, BOOL) or target.kind is Kind.NUMERIC:
        return replace(text, loose=False).rising(lambda expr: build.cast(expr, target))
    if target != TEXT:
        return None
    return strict(text, exactly(build.literal(_AMBIGUOUS, TEXT)))
