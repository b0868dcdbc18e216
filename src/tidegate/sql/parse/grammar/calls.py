"""Function calls, and expressions with their own grammar: CASE, CAST, EXTRACT, TRIM and others.

Each becomes a plain call of a declared function: `EXTRACT(year FROM at)` is `extract('year', at)`,
`POSITION(x IN y)` is `strpos(y, x)`, `TRIM(LEADING 'x' FROM y)` is `ltrim(y, 'x')`. Calls that look at more
than one row (aggregates, window functions, functions that return rows) are recognised here by their names or their
clauses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from tidegate.errors import BindError, Position, UnsupportedError
from tidegate.plan import AGGREGATE_NAMES, GENERAL_AGGREGATES
from tidegate.sql.parse.grammar.named_arguments import argument_name, arrange
from tidegate.sql.parse.grammar.types import cast_to
from tidegate.sql.parse.syntax import (
    AggregateCall,
    Apply,
    Case,
    Constant,
    Ident,
    Items,
    Node,
    NonScalar,
    Ordering,
    Over,
    Span,
    WindowFrame,
)
from tidegate.sql.parse.token_cursor import TokenCursor, is_name, words

Parse: TypeAlias = Callable[..., Node]
"""The grammar of expressions, handed in by `expressions.py`, which calls what stands here."""

AGGREGATES = GENERAL_AGGREGATES | words("list_agg map_agg")
"""Functions of many rows, beside those of `plan/aggregate.py`, which become `AggregateCall`."""
WINDOWS = words(
    "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"
)
TABLES = words(
    "generate_series json_array_elements json_array_elements_text jsonb_array_elements "
    "json_each json_each_text json_object_keys json_to_record json_to_recordset "
    "jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys jsonb_path_query jsonb_to_record "
    "jsonb_to_recordset regexp_matches regexp_split_to_table string_to_table unnest"
)
_SCHEMAS = (("pg_catalog",), ("mz_catalog",), ("mz_internal",))


def call(c: TokenCursor, name: tuple[Ident, ...], expression: Parse) -> Node:
    """`name(…)` with everything that may follow."""
    at, last = Span(name[0].at.start, name[-1].at.end), name[-1].text
    if len(name) > 1 and tuple(part.text for part in name[:-1]) not in _SCHEMAS:
        raise UnsupportedError("functions have no schema here", position=Position(c.sql, *at))
    c.expect("(")
    distinct, star = c.eat("distinct"), False
    if not distinct:
        c.eat("all")
    args: list[Node] = []
    names: list[str | None] = []
    if c.eat("*"):
        star = True
    elif not c.sees(")"):
        names.append(argument_name(c))
        args.append(expression(c))  # a plain loop: every frame counts in f(f(f(…)))
        while c.eat(","):
            names.append(argument_name(c))
            args.append(expression(c))
    order_by: tuple[Ordering, ...] = ()
    if c.eat("order", "by"):
        order_by = c.comma_list(lambda: Ordering(*ordering(c, expression)))
    c.expect(")", of="a comma")
    given = arrange(c, last, names, args)
    within, where = _clauses(c, expression)
    found = AggregateCall(last, given, at, star, distinct, where, (), order_by or within, bool(within))
    if c.eat("over"):
        return NonScalar(f"the window function {last}", at, call=found, over=over(c, expression))
    if last in AGGREGATE_NAMES and not found.order_by:
        return found
    if last in AGGREGATES or distinct or star or found.order_by or where is not None:
        return NonScalar(f"the aggregate {last}", at, call=found)
    if last in WINDOWS:
        raise c.fail("OVER", hint=f"{last} is a window function")
    return (
        NonScalar(f"the table function {last}", at, args=given, table=last)
        if last in TABLES
        else Apply(last, given, at, is_function=True)
    )


def ordering(c: TokenCursor, expression: Parse) -> tuple[Node, bool, bool]:
    """An entry of ORDER BY: the value, whether descending, whether nulls come first."""
    value = expression(c)
    using = c.eat("using")
    if using and c.token.text not in ("<", ">"):
        raise c.fail("< or >")
    descending = c.next().text == ">" if using else c.eat("desc")
    if not descending and not using:
        c.eat("asc")
    nulls_first = descending  # NULL counts as greatest
    if c.eat("nulls"):
        found = c.eat_any("first", "last")
        if found is None:
            raise c.fail("FIRST or LAST")
        nulls_first = found == "first"
    return value, descending, nulls_first


def _clauses(c: TokenCursor, expression: Parse) -> tuple[tuple[Ordering, ...], Node | None]:
    """WITHIN GROUP and FILTER behind a call: the order of the one, and the condition of the other."""
    within: tuple[Ordering, ...] = ()
    where = None
    if c.eat("within"):
        c.expect("group", "(", "order", "by")
        within = c.comma_list(lambda: Ordering(*ordering(c, expression)))
        c.expect(")")
    if c.sees("filter", "("):
        c.expect("filter", "(", "where")
        where = expression(c)
        c.expect(")")
    return within, where


def over(c: TokenCursor, expression: Parse) -> Over:
    """A window's name or definition."""
    at = c.span()
    if not c.sees("("):
        return Over(c.name("a window's name or ("), (), (), None, at)
    c.expect("(")
    base = None
    if is_name(c.token) and not any(c.sees(*words) for words in _IN_WINDOW):
        base = c.name("a window's name")
    partition_by: tuple[Node, ...] = ()
    if c.eat("partition", "by"):
        partition_by = c.comma_list(lambda: expression(c))
    order_by: tuple[Ordering, ...] = ()
    if c.eat("order", "by"):
        order_by = c.comma_list(lambda: Ordering(*ordering(c, expression)))
    frame = _frame(c, expression)
    c.expect(")")
    return Over(base, partition_by, order_by, frame, at)


_UNITS: dict[str, Literal["rows", "range", "groups"]] = {"rows": "rows", "range": "range", "groups": "groups"}
_IN_WINDOW = (("partition", "by"), ("order", "by"), *((unit,) for unit in _UNITS))


def _frame(c: TokenCursor, expression: Parse) -> WindowFrame | None:
    """ROWS, RANGE or GROUPS, and from where to where."""
    at = c.span()
    unit = c.eat_any(*_UNITS)
    if unit is None:
        return None
    if c.eat("between"):
        first = _bound(c, expression)
        c.expect("and")
        last = _bound(c, expression)
    else:
        first, last = _bound(c, expression), ("current row", None)
    return WindowFrame(_UNITS[unit], first, last, _exclusion(c), c.since(at.start))


def _exclusion(c: TokenCursor) -> Literal["current row", "group", "ties"] | None:
    """EXCLUDE, at the end of a frame."""
    if not c.eat("exclude"):
        return None
    if c.eat("current", "row"):
        return "current row"
    match c.eat_any("group", "ties", "no"):
        case "group":
            return "group"
        case "ties":
            return "ties"
        case "no":
            c.expect("others")
            return None
        case _:
            raise c.fail("CURRENT ROW, GROUP, TIES or NO OTHERS")


def _bound(c: TokenCursor, expression: Parse) -> tuple[str, Node | None]:
    """One end of a frame."""
    if c.eat("current", "row"):
        return "current row", None
    count = None if c.eat("unbounded") else expression(c)
    way = c.eat_any("preceding", "following")
    if way is None:
        raise c.fail("PRECEDING or FOLLOWING")
    return way, count


def case(c: TokenCursor, expression: Parse) -> Node:
    """Both forms of CASE; `CASE x WHEN a THEN …` compares x = a."""
    at = c.expect("case")
    operand = None if c.sees("when") else expression(c)
    args: list[Node] = []
    while c.sees("when"):
        place = c.expect("when")
        condition = expression(c)
        args.append(condition if operand is None else Apply("=", (operand, condition), place))
        c.expect("then", of="an operator")
        args.append(expression(c))
    if not args:
        raise c.fail("WHEN")
    args.append(expression(c) if c.eat("else") else Constant("null", "null", at))
    c.expect("end", of="WHEN, ELSE")
    return Case(tuple(args), at)


# ---------------------------------------------------------------- calls with a grammar of their own


def _cast(c: TokenCursor, expression: Parse) -> Node | None:
    at = c.expect("cast")
    c.expect("(")
    value = expression(c)
    c.expect("as", of="an operator")
    found = cast_to(c, value, at)
    c.expect(")")
    return found


def _extract(c: TokenCursor, expression: Parse) -> Node | None:
    if not c.sees("(", skip=1):
        return None
    at = c.expect("extract")
    c.expect("(")
    token = c.next()
    if token.kind not in ("word", "string", "quoted"):
        raise c.fail("a field such as year or epoch", token)
    field = Constant("string", token.text, Span(token.start, token.end))
    if not c.eat(","):
        c.expect("from")
    value = expression(c)
    c.expect(")", of="an operator")
    return Apply("extract", (field, value), at)


def _substring(c: TokenCursor, expression: Parse) -> Node | None:
    """SUBSTRING(s FROM 2 FOR 3), SUBSTRING(s FOR 3), SUBSTRING(s FROM 'pattern'), substring(s, 2, 3)."""
    if not c.sees("(", skip=1):
        return None
    name = c.token.text
    at = c.expect(name)
    c.expect("(")
    args = [expression(c)]
    if c.eat("from"):
        args.append(expression(c))
        if c.eat("for"):
            args.append(expression(c))
    elif c.eat("for"):
        args += [Constant("number", "1", at), expression(c)]
    while c.eat(","):
        args.append(expression(c))
    c.expect(")", of="FROM, FOR, a comma")
    return Apply(name, tuple(args), at)


def _position(c: TokenCursor, expression: Parse) -> Node | None:
    if not c.sees("(", skip=1):
        return None
    at = c.expect("position")
    c.expect("(")
    # IN binds tighter than all but other operators: PostgreSQL reads only those on both sides here.
    what = expression(c, 7)
    if c.eat(","):
        args: tuple[Node, ...] = (what, expression(c))
    else:
        c.expect("in")
        args = (expression(c, 7), what)
    c.expect(")", of="an operator")
    return Apply("strpos", args, at)


def _trim(c: TokenCursor, expression: Parse) -> Node | None:
    """TRIM([BOTH | LEADING | TRAILING] [characters] FROM text), trim(text), trim(text, characters)."""
    if not c.sees("(", skip=1):
        return None
    at = c.expect("trim")
    c.expect("(")
    side = {"leading": "ltrim", "trailing": "rtrim"}.get(
        c.eat_any("both", "leading", "trailing") or "both", "btrim"
    )
    if c.eat("from"):
        args = [expression(c)]
    else:
        args = [expression(c)]
        if c.eat("from"):
            args = [expression(c), *args]
    while c.eat(","):
        args.append(expression(c))
    c.expect(")", of="FROM, a comma")
    return Apply(side, tuple(args), at)


def _normalize(c: TokenCursor, expression: Parse) -> Node | None:
    """NORMALIZE(text [, NFC | NFD | NFKC | NFKD])."""
    if not c.sees("(", skip=1):
        return None
    at = c.expect("normalize")
    c.expect("(")
    args = [expression(c)]
    if c.eat(","):
        form = c.label("NFC, NFD, NFKC or NFKD")
        args.append(Constant("string", form.text, form.at))
    c.expect(")", of="a comma")
    return Apply("normalize", tuple(args), at, is_function=True)


def _overlay(c: TokenCursor, expression: Parse) -> Node | None:
    """OVERLAY(text PLACING other FROM 2 FOR 3)."""
    if not c.sees("(", skip=1):
        return None
    at = c.expect("overlay")
    c.expect("(")
    args = [expression(c)]
    while c.eat_any("placing", "from", "for", ","):
        args.append(expression(c))
    c.expect(")", of="PLACING, FROM, FOR")
    return Apply("overlay", tuple(args), at)


def _moment(c: TokenCursor, _: Parse) -> Node | None:
    """CURRENT_TIMESTAMP and its kin, which are called without parentheses, or with a precision."""
    token = c.next()
    at = Span(token.start, token.end)
    if token.text == "current_date" or not c.eat("("):
        return Apply(token.text, (), at)
    precision = Constant("number", str(c.integer("a number of digits")), at)
    c.expect(")")
    return Apply(token.text, (precision,), at)


def _session_word(c: TokenCursor, _: Parse) -> Node | None:
    """CURRENT_USER and its kin, which are called without parentheses."""
    token = c.next()
    if token.text == "current_schema" and c.eat("("):
        c.expect(")")
    return Apply(token.text, (), Span(token.start, token.end))


def similar(c: TokenCursor, x: Node, expression: Parse, power: int, at: Span) -> Node:
    """`x SIMILAR TO pattern [ESCAPE e]`: the regular expression that the pattern means."""
    if not c.eat("to"):
        hint = "SUBSTRING … SIMILAR is not supported: substring(x FROM 'a(b+)c') takes a regular expression"
        raise c.fail("TO", hint=hint)
    pattern = expression(c, power)
    escape = (expression(c, power),) if c.eat("escape") else ()
    return Apply("~", (x, Apply("similar_to_escape", (pattern, *escape), at)), at)


def overlaps(c: TokenCursor, left: Node, right: Node, at: Span) -> Node:
    """`(start, end) OVERLAPS (start, end)`, where an end may be an interval."""
    for side in (left, right):
        if not isinstance(side, Items) or side.kind != "row" or len(side.args) != 2:
            raise BindError("OVERLAPS takes (start, end) on both sides", position=Position(c.sql, *side.at))
    return Apply("overlaps", (*left.args, *right.args), at)


SPECIAL: dict[str, Callable[[TokenCursor, Parse], Node | None]] = {
    "cast": _cast,
    "extract": _extract,
    "substring": _substring,
    "substr": _substring,
    "position": _position,
    "trim": _trim,
    "overlay": _overlay,
    "normalize": _normalize,
    **dict.fromkeys(
        ("current_date", "current_timestamp", "localtimestamp", "current_time", "localtime"), _moment
    ),
    **dict.fromkeys(
        ("current_user", "session_user", "user", "current_role", "current_catalog", "current_schema"),
        _session_word,
    ),
}
"""By the word that they start with; each gives None if the word turns out to be a plain name."""
