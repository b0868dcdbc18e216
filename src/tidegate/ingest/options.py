"""Options of CREATE SOURCE and CREATE CONNECTION: declared as data, checked by one function.

    OPTIONS = (
        OptionSpec("topic", TEXT, "the topic to read", required=True, example="TOPIC 'orders'"),
        OptionSpec("timeout ms", whole_number(1), "how long a broker may stay silent", default=30_000),
    )
    check_options("KAFKA", OPTIONS, {"topic": "orders"})        {"topic": "orders", "timeout ms": 30000}

| option | error |
|---|---|
| is not declared | KAFKA has no option TOPICS; hint: did you mean TOPIC? |
| is required and missing | KAFKA needs TOPIC; hint: TOPIC 'orders' |
| has a wrong value | TIMEOUT MS is a whole number of at least 1, not 'soon' |
| has no value, and is no flag | TOPIC needs a value: a text in quotes; hint: TOPIC 'orders' |

Errors carry `ErrorCode.INVALID_OPTION` and the option's name as their subject;
`define/options.py` uses it to find the position in the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from tidegate.errors import BindError, ErrorCode
from tidegate.text import literal


@dataclass(frozen=True)
class OptionType:
    """The values that an option may have."""

    description: str
    """A phrase that follows "is": `a whole number of at least 1`."""
    accepts: Callable[[Any], bool]


@dataclass(frozen=True)
class OptionSpec:
    """An option: its name in lower case, its type, its meaning, and its default value."""

    name: str
    type: OptionType
    meaning: str
    default: Any = None
    required: bool = False
    example: str | None = None
    """How to write it, for the hint of an error."""
    alias: str | None = None
    """Another name for the same option."""


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, and not TRUE or FALSE."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_list(value: Any) -> list[Any]:
    """The values of an option that takes one value or a list."""
    return list(value) if isinstance(value, tuple | list) else [value]


def whole_number(low: int, high: int | None = None, of: str = "") -> OptionType:
    """Whole numbers from `low` to `high`; `of` names the unit: `whole_number(0, of=" of milliseconds")`."""
    limits = f" of at least {low}" if high is None else f" from {low} to {high}"
    return OptionType(
        f"a whole number{of}{limits}",
        lambda value: is_integer(value) and low <= value and (high is None or value <= high),
    )


TEXT = OptionType("a text in quotes", lambda value: isinstance(value, str) and value.strip() != "")
TEXTS = OptionType(
    "a text in quotes, or a list of them",
    lambda value: bool(as_list(value)) and all(TEXT.accepts(item) for item in as_list(value)),
)
FLAG = OptionType("TRUE or FALSE", lambda value: isinstance(value, bool))
ANY = OptionType("a value", lambda _: True)


def check_options(
    owner: str, declared: Sequence[OptionSpec], options: Mapping[str, Any], *, strict: bool = True
) -> dict[str, Any]:
    """Returns the values of all declared options, with defaults; a BindError names a wrong option.

    Without `strict`, undeclared options are passed on unchanged.
    """
    by_name = _by_name(declared)
    values = {spec.name: spec.default for spec in declared}
    for name, value in _join_flags(by_name, options).items():
        spec = by_name.get(name)
        if spec is None and strict:
            raise option_error(f"{owner} has no option {name.upper()}", name, hint=_suggestion(name, by_name))
        if spec is not None and not spec.type.accepts(value):
            message = f"{name.upper()} is {spec.type.description}, not {literal(value)}"
            raise option_error(message, name, hint=spec.example)
        values[name if spec is None else spec.name] = value
    for spec in declared:
        if spec.required and values[spec.name] is None:
            raise option_error(f"{owner} needs {spec.name.upper()}", spec.name, hint=spec.example)
    return values


def check_given(declared: Sequence[OptionSpec], words: str) -> None:
    """Raises a BindError if `words` are the name of an option that is no flag, written without a value."""
    spec = _by_name(declared).get(words)
    if spec is None or (spec.type is not ANY and spec.type.accepts(True)):
        return
    message = f"{words.upper()} needs a value"
    if spec.type is not ANY:
        message += f": {spec.type.description}"
    raise option_error(message, words, hint=spec.example or spec.meaning)


def _by_name(declared: Sequence[OptionSpec]) -> dict[str, OptionSpec]:
    return {name: spec for spec in declared for name in (spec.name, spec.alias) if name is not None}


def option_error(message: str, name: str, hint: str | None = None) -> BindError:
    """The error for an option that is unknown, missing or wrong."""
    return BindError(message, hint=hint, code=ErrorCode.INVALID_OPTION, subject=name)


def _join_flags(by_name: Mapping[str, OptionSpec], options: Mapping[str, Any]) -> dict[str, Any]:
    """Joins flags of two words: `WITH (APPEND ONLY)` is parsed as option APPEND with the value `only`."""
    joined: dict[str, Any] = {}
    for name, value in options.items():
        flag = by_name.get(f"{name} {value}") if name not in by_name else None
        joined.update({flag.name: True} if flag is not None and flag.type is FLAG else {name: value})
    return joined


def _suggestion(name: str, by_name: Mapping[str, OptionSpec]) -> str:
    close = get_close_matches(name, by_name, n=2)
    if close:
        return f"did you mean {' or '.join(close).upper()}?"
    return f"it has {', '.join(by_name).upper()}" if by_name else "it has none"
