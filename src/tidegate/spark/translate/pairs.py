"""Catalyst nodes that mean the same as a function of ours, as the function's own declaration says.

A declaration gives the Spark SQL that equals the function for every row, such as `spark="char_length({0})"` of `length`
(`expr/spark_sql/forms.py`; `tests/spark/test_expression.py` proves it). The table below gives the Catalyst class that Spark parses
such a text to. So the node `Length` over a text is our `length`, and the fact that they are equal stands in one place:

    ours                    Spark SQL             Catalyst
    length(text)       →    char_length({0})  ↔   Length              to_spark_sql.py reads it from left to right, this module back

Only plain texts count. A form that is computed from its arguments may hold for some of them alone, and translates nothing here.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from tidegate.expr.model import REGISTRY, Call, Function, Type
from tidegate.spark.translate.catalyst_tree import CatalystNode
from tidegate.spark.translate.value import SparkValue, TranslationScope, exact_value, translates

PAIRS: dict[str, tuple[str, ...]] = {
    "Abs": ("abs({0})",),
    "Add": ("({0} + {1})",),
    "Ascii": ("ascii({0})",),
    "BitLength": ("bit_length({0})",),
    "BitwiseAnd": ("({0} & {1})",),
    "BitwiseNot": ("(~ {0})",),
    "BitwiseOr": ("({0} | {1})",),
    "BitwiseXor": ("({0} ^ {1})",),
    "Length": ("char_length({0})", "octet_length({0})"),  # of binary, Spark's length counts bytes
    "Multiply": ("({0} * {1})",),
    "OctetLength": ("octet_length({0})",),
    "Remainder": ("({0} % {1})",),
    "Reverse": ("reverse({0})",),
    "StringInstr": ("instr({0}, {1})",),
    "StringReplace": ("replace({0}, {1}, {2})",),
    "StringTranslate": ("translate({0}, {1}, {2})",),
    "StringTrim": ("trim(BOTH FROM {0})", "trim(BOTH {1} FROM {0})"),
    "StringTrimLeft": ("trim(LEADING FROM {0})", "trim(LEADING {1} FROM {0})"),
    "StringTrimRight": ("trim(TRAILING FROM {0})", "trim(TRAILING {1} FROM {0})"),
    "Subtract": ("({0} - {1})",),
    "UnaryMinus": ("(- {0})",),
}
"""Catalyst classes and the Spark SQL that is parsed to each of them; `numbers.py` adds floats and decimals to some."""


@translates(*PAIRS)
def same_function(scope: TranslationScope, node: CatalystNode) -> SparkValue | None:
    """Translates a node to the function of ours that is declared to be the same for these types."""
    values = scope.exacts(node)
    if values is None:
        return None
    argument_types = [value.type for value in values]
    for text in PAIRS[node.kind]:
        for function in _declared()[text]:
            if _takes(function, argument_types):
                result = function.result_type(argument_types)
                return exact_value(Call(function, tuple(value.low for value in values), result), *values)
    return None


@cache
def _declared() -> defaultdict[str, list[Function]]:
    """Returns the functions whose Spark form is a plain text, by that text."""
    by_text: defaultdict[str, list[Function]] = defaultdict(list)
    for function in REGISTRY:
        if isinstance(function.spark, str) and not function.variadic:
            by_text[function.spark].append(function)
    return by_text


def _takes(function: Function, argument_types: list[Type]) -> bool:
    """Whether a function takes arguments of exactly these kinds of types, without a cast."""
    return len(function.params) == len(argument_types) and all(
        isinstance(param, Type) and param.kind is type_.kind
        for param, type_ in zip(function.params, argument_types, strict=True)
    )
