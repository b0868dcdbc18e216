"""Text functions that need more than a pair of names (`pairs.py`).

Both sides order and count text by code points.

Not translated: `upper` and `lower`, which follow Java's rules in Spark ('ß' becomes 'SS') and go letter by letter here, and regular
expressions, which are Java's; only `^` followed by plain letters, which is a prefix, is translated.
"""

from __future__ import annotations

import re

from tidegate.expr.model import Kind, build, types
from tidegate.spark.translate.catalyst_tree import CatalystNode
from tidegate.spark.translate.json import strict
from tidegate.spark.translate.value import SparkValue, TranslationScope, call, exact_value, translates

_MAX_LENGTH = 2**31 - 1
_PLAIN_PREFIX = re.compile(r"\^([A-Za-z0-9 _:/-]+)(\.\*)?\Z")


def _text(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    value = scope.exact(node)
    return value if value is not None and value.type.kind is Kind.TEXT else None


@translates("StartsWith")
def starts_with(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates startswith."""
    value, prefix = scope.value(node.children[0]), _text(scope, node.children[1])
    if value is None or prefix is None or value.type.kind is not Kind.TEXT or value.low is not value.high:
        return None
    plain = strict(value, prefix)
    return None if plain is None else call("starts_with", plain, prefix)


@translates("EndsWith")
def ends_with(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates endswith of a constant."""
    value, suffix = _text(scope, node.children[0]), node.children[1].constant()
    if value is None or not isinstance(suffix, str):
        return None
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", suffix)
    return call("like", value, exact_value(build.literal(pattern, types.TEXT)))


@translates("Contains")
def contains(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates contains."""
    values = [_text(scope, child) for child in node.children]
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    position = build.call("strpos", *(value.low for value in known))
    return exact_value(build.call(">", position, build.literal(0, types.INT4)), *known)


@translates("Like")
def like(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates LIKE a constant with escapes only before %, _ or the escape; Spark refuses others."""
    value, pattern = _text(scope, node.children[0]), node.children[1].constant()
    if value is None or not isinstance(pattern, str):
        return None
    escape = str(node.java.escapeChar())
    rest = re.sub(re.escape(escape) + f"[%_{re.escape(escape)}]", "", pattern)
    if escape in rest:
        return None
    return call("like", value, *(exact_value(build.literal(text, types.TEXT)) for text in (pattern, escape)))


@translates("RLike")
def regular(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a regular expression that is a plain prefix."""
    value, pattern = _text(scope, node.children[0]), node.children[1].constant()
    prefix = _PLAIN_PREFIX.match(pattern) if isinstance(pattern, str) else None
    if value is None or prefix is None:
        return None
    return call("starts_with", value, exact_value(build.literal(prefix[1], types.TEXT)))


@translates("Substring")
def substring(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates substring with constants; Spark takes position 0 for 1."""
    value = _text(scope, node.children[0])
    start, size = (child.constant() for child in node.children[1:])
    if value is None or not isinstance(start, int) or not isinstance(size, int) or start < 0 or size < 0:
        return None
    start = max(start, 1)
    first = exact_value(build.literal(start, types.INT4))
    if size + start > _MAX_LENGTH:
        return value if start == 1 else call("substr", value, first)
    count = exact_value(build.literal(size, types.INT4))
    return call("left", value, count) if start == 1 else call("substr", value, first, count)


@translates("Concat")
def concat(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates concat and ||, which are NULL if any argument is."""
    values = [_text(scope, child) for child in node.children]
    known = [value for value in values if value is not None]
    if len(known) != len(values) or not known:
        return None
    joined = known[0]
    for value in known[1:]:
        joined = call("||", joined, value)
    return joined
