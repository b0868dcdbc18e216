"""Arguments given by name, `make_interval(days => 3)`, brought to their places in a call.

    arrange("make_interval", [None, "days"], [1, 3], …)      1, 0, 0, 3: years, months, weeks, days

Functions of many parameters are called so, and PostgreSQL names the parameters of few others. A parameter that is left out before
one that is given has its default.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import BindError, ErrorCode, Position, UnsupportedError
from tidegate.sql.parse.syntax import Constant, Node
from tidegate.sql.parse.token_cursor import TokenCursor

_DATE = (("year", None), ("month", None))
_CLOCK = (("hour", None), ("min", None), ("sec", None))
_JSON_PATH = (("target", None), ("path", None), ("vars", "{}"), ("silent", "false"))
PARAMETERS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "make_interval": tuple(
        (name, "0") for name in ("years", "months", "weeks", "days", "hours", "mins", "secs")
    ),
    "make_date": (*_DATE, ("day", None)),
    "make_time": _CLOCK,
    "make_timestamp": (*_DATE, ("mday", None), *_CLOCK),
    "make_timestamptz": (*_DATE, ("mday", None), *_CLOCK, ("timezone", None)),
    "jsonb_set": (("jsonb_in", None), ("path", None), ("replacement", None), ("create_if_missing", "true")),
    "jsonb_insert": (("jsonb_in", None), ("path", None), ("replacement", None), ("insert_after", "false")),
    "parse_ident": (("str", None), ("strict", "true")),
    "jsonb_path_exists": _JSON_PATH,
    "jsonb_path_match": _JSON_PATH,
    "jsonb_path_query": _JSON_PATH,
    "jsonb_path_query_array": _JSON_PATH,
    "jsonb_path_query_first": _JSON_PATH,
}
"""The parameters of functions with their defaults, as PostgreSQL names them."""


def argument_name(c: TokenCursor) -> str | None:
    """Reads `name =>` or `name :=` before an argument, if it is there; refuses VARIADIC."""
    if c.token.kind != "word" or not (c.sees("variadic") or c.ahead(1).text in ("=>", ":=")):
        return None
    if c.sees("variadic"):
        raise UnsupportedError(
            "VARIADIC arguments are not supported",
            hint="write the elements of the array as arguments",
            position=Position(c.sql, *c.span()),
        )
    name = c.label("an argument's name").text
    c.i += 1
    return name


def arrange(
    c: TokenCursor, function: str, names: Sequence[str | None], args: Sequence[Node]
) -> tuple[Node, ...]:
    """The arguments in the order of the function's parameters, with defaults where one is left out."""
    if not any(names):
        return tuple(args)
    parameters = PARAMETERS.get(function)
    places: dict[int, Node] = {}
    for i, (name, arg) in enumerate(zip(names, args, strict=True)):
        position = Position(c.sql, *arg.at)
        if parameters is None:
            message = f"the parameters of {function} have no names here"
            raise UnsupportedError(message, hint="give arguments by position", position=position)
        if name is None and any(names[:i]):
            raise BindError("a positional argument cannot follow one with a name", position=position)
        known = [parameter for parameter, _ in parameters]
        place = i if name is None else known.index(name) if name in known else -1
        if place < 0 or place >= len(known) or place in places:
            wrong = "is given twice" if place in places else "does not exist"
            message = f'parameter "{name}" of {function} {wrong}'
            hint = f"its parameters are {', '.join(known)}"
            raise BindError(message, code=ErrorCode.UNDEFINED_FUNCTION, hint=hint, position=position)
        places[place] = arg
    assert parameters is not None
    return tuple(
        places.get(i) or _default(c, function, parameters[i], args[0]) for i in range(max(places) + 1)
    )


def _default(c: TokenCursor, function: str, parameter: tuple[str, str | None], beside: Node) -> Node:
    name, default = parameter
    if default is None:
        raise BindError(
            f'parameter "{name}" of {function} is missing',
            code=ErrorCode.UNDEFINED_FUNCTION,
            position=Position(c.sql, *beside.at),
        )
    kind = "bool" if default in ("true", "false") else "number" if default.isdigit() else "string"
    return Constant(kind, default, beside.at)  # type: ignore[arg-type]  # one of the kinds of constants
