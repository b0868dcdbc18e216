"""WITH (…) of CREATE SOURCE: the options of every source, and those of its upstream.

| option | meaning |
|---|---|
| `MAX ERRORS 100` | bad rows after which the source stops |
| `BATCH ROWS`, `BATCH BYTES`, `BATCH FILES` | the maximum size of one batch |
| `RETENTION '30 days'` | how long past times of its collections can be read |
| `SPLIT` | the transform may be any query: the part that is not row by row becomes a view over the stored rows |

All others are checked by the upstream's `UpstreamType.with_options`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import BindError, ErrorCode, Position, TidegateError
from tidegate.ingest.options import FLAG, OptionSpec, check_given, check_options, whole_number
from tidegate.ingest.protocol import BatchLimit
from tidegate.sql.bind import interval_milliseconds
from tidegate.sql.parse import statement
from tidegate.storage.shard import shard_options

_OPTIONS = (
    OptionSpec(
        "max errors", whole_number(0), "bad rows after which the source stops", example="MAX ERRORS 100"
    ),
    OptionSpec("batch rows", whole_number(1), "rows of a batch", example="BATCH ROWS 100000"),
    OptionSpec("batch bytes", whole_number(1), "bytes of a batch", example="BATCH BYTES 100000000"),
    OptionSpec("batch files", whole_number(1), "files of a batch", example="BATCH FILES 10"),
    OptionSpec("split", FLAG, "store rows, and make a view of the rest of the transform", default=False),
)
_RETENTION = ("retention", "retain history", "retain history for")


@dataclass(frozen=True)
class WithOptions:
    """The values of WITH (…)."""

    limit: BatchLimit = field(default_factory=BatchLimit)
    max_errors: int | None = None
    split: bool = False
    shard: Mapping[str, Any] = field(default_factory=dict)
    """Options of every shard."""
    upstream: Mapping[str, Any] = field(default_factory=dict)
    """Options for the upstream."""


def parse_with_options(options: tuple[statement.Option, ...], sql: str) -> WithOptions:
    """Parses WITH (…); raises a BindError if a value is wrong."""
    written = options_by_name(options, sql)
    check_values_given(options, _OPTIONS)
    retention = [interval_milliseconds(option, sql) for option in options if option.name in _RETENTION]
    shard = {shard_options.RETENTION_MS: retention[-1]} if retention else {}
    own = {spec.name for spec in _OPTIONS}
    values = check_options("WITH", _OPTIONS, {name: value for name, value in written.items() if name in own})
    limit = BatchLimit(values["batch rows"], values["batch bytes"], values["batch files"])
    upstream = {name: value for name, value in written.items() if name not in own | {*_RETENTION}}
    return WithOptions(limit, values["max errors"], values["split"], shard, upstream)


def options_by_name(options: tuple[statement.Option, ...], sql: str) -> dict[str, Any]:
    """Returns options by name, as JSON values; raises a BindError if one occurs twice."""
    values: dict[str, Any] = {}
    for option in options:
        if option.name in values:
            raise BindError(f"{option.name.upper()} is given twice", position=Position(sql, *option.at))
        values[option.name] = json_value(option.value)
    return values


def check_values_given(options: tuple[statement.Option, ...], declared: Sequence[OptionSpec]) -> None:
    """Raises a BindError for an option without a value that is no flag.

    `(MAX ERRORS)` is parsed as option MAX with the value `errors`.
    """
    names = {spec.name for spec in declared}
    for option in options:
        if option.bare or option.name not in names:
            check_given(declared, option.name if option.bare else f"{option.name} {option.value}")


def json_value(value: statement.Value) -> Any:
    """Converts a value to JSON."""
    return [json_value(item) for item in value] if isinstance(value, tuple) else value


def set_position(
    error: TidegateError, sql: str, options: tuple[statement.Option, ...], default: Position
) -> None:
    """Sets the position of an error without one to that of the option it names, or else to the default."""
    if error.position is None:
        about = error.subject if error.code is ErrorCode.INVALID_OPTION else None
        places = (Position(sql, *option.at) for option in options if _names(option, about))
        error.position = next(places, default)


def _names(option: statement.Option, subject: str | None) -> bool:
    """Whether `subject` names an option; `APPEND ONLY` is parsed as option APPEND with the value `only`."""
    return subject is not None and subject in (option.name, f"{option.name} {option.value}")
