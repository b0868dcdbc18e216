"""Text: both sides order and count it by code points, so most functions are ours; letters' case is not.

`upper` and `lower` follow Java's rules in Spark ('ß' becomes 'SS') and go letter by letter here: not translated. A regular
expression is Java's: only `^` and plain letters, which is a prefix, is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tidegate.expr import build
from tidegate.expr.types import INT4, TEXT, Kind
from tidegate.spark.catalyst_json import strict
from tidegate.spark.catalyst_tree import Node
from tidegate.spark.catalyst_value import Context, Value, called, exactly, node

_WHOLE = 2**31 - 1
_PLAIN_PREFIX = re.compile(r"\^([A-Za-z0-9 _:/-]+)(\.\*)?\Z")


def _text(context: Context, given: Node) -> Value | None:
    value = context.exact(given)
    return value if value is not None and value.type.kind is Kind.TEXT else None


@node("StartsWith")
def starts_with(context: Context, given: Node) -> Value | None:
    """Whether a text begins with another."""
    value, prefix = context.value(given.children[0]), _text(context, given.children[1])
    if value is None or prefix is None or value.type.kind is not Kind.TEXT or value.low is not value.high:
        return None
    plain = strict(value, prefix)
    return None if plain is None else called("starts_with", plain, prefix)


@node("EndsWith")
def ends_with(context: Context, given: Node) -> Value | None:
    """Whether a text ends with a constant."""
    value, suffix = _text(context, given.children[0]), given.children[1].constant()
    if value is None or not isinstance(suffix, str):
        return None
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", suffix)
    return called("like", value, exactly(build.literal(pattern, TEXT)))


@node("Contains")
def contains(context: Context, given: Node) -> Value | None:
    """Whether a text has another inside."""
    values = [_text(context, child) for child in given.children]
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    found = build.call(">", build.call("strpos", *(value.low for value in known)), build.literal(0, INT4))
    return exactly(found, *known)


@node("Like")
def like(context: Context, given: Node) -> Value | None:
    """LIKE a constant, in which every escape stands before %, _ or itself; Spark refuses others."""
    value, pattern = _text(context, given.children[0]), given.children[1].constant()
    if value is None or not isinstance(pattern, str):
        return None
    escape = str(given.java.escapeChar())
    rest = re.sub(re.escape(escape) + f"[%_{re.escape(escape)}]", "", pattern)
    if escape in rest:
        return None
    return called("like", value, *(exactly(build.literal(text, TEXT)) for text in (pattern, escape)))


@node("RLike")
def regular(context: Context, given: Node) -> Value | None:
    """A regular expression that is a plain prefix."""
    value, pattern = _text(context, given.children[0]), given.children[1].constant()
    found = _PLAIN_PREFIX.match(pattern) if isinstance(pattern, str) else None
    if value is None or found is None:
        return None
    return called("starts_with", value, exactly(build.literal(found[1], TEXT)))


@node("Substring")
def substring(context: Context, given: Node) -> Value | None:
    """substring(text, from, length) with constants; Spark takes position 0 for 1."""
    value = _text(context, given.children[0])
    start, size = (child.constant() for child in given.children[1:])
    if value is None or not isinstance(start, int) or not isinstance(size, int) or start < 0 or size < 0:
        return None
    start = max(start, 1)
    first = exactly(build.literal(start, INT4))
    if size + start > _WHOLE:
        return value if start == 1 else called("substr", value, first)
    many = exactly(build.literal(size, INT4))
    return called("left", value, many) if start == 1 else called("substr", value, first, many)


@node("Concat")
def concat(context: Context, given: Node) -> Value | None:
    """concat and ||: NULL if any is."""
    values = [_text(context, child) for child in given.children]
    known = [value for value in values if value is not None]
    if len(known) != len(values) or not known:
        return None
    found = known[0]
    for value in known[1:]:
        found = called("||", found, value)
    return found


def _of_text(name: str, bytes_too: bool = False) -> Callable[[Context, Node], Value | None]:
    def translator(context: Context, given: Node) -> Value | None:
        values = context.exacts(given)
        kinds = (Kind.TEXT, Kind.BYTEA) if bytes_too else (Kind.TEXT,)
        if values is None or any(value.type.kind not in kinds for value in values):
            return None
        return called(name, *values)

    return translator


node("Length")(_of_text("length", bytes_too=True))
node("OctetLength")(_of_text("octet_length", bytes_too=True))
node("StringInstr")(_of_text("strpos"))
node("StringTrim")(_of_text("btrim"))
node("StringTrimLeft")(_of_text("ltrim"))
node("StringTrimRight")(_of_text("rtrim"))
node("Reverse")(_of_text("reverse"))
