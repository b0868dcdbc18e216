"""Binds expressions: names get columns, operators get overloads, strings get types.

    price * 2 > '10'      over orders (id int8, price numeric(10,2))
    Call(>, (Call(*, (Column(1), 2)), 10::numeric))

The tree is walked from its leaves with a loop, so a text as deep as it likes cannot exhaust the interpreter's stack; the limit on
nesting is the expression's own (`tree.Call`). Overloads and implicit casts are chosen by `expr.build`, by name: a function that is
declared is known here. An error gets the place of what is to blame: the string that cannot be read, else the operator or function.
"""

from __future__ import annotations

from typing import assert_never
from zlib import crc32

from tidegate.errors import BindError, ErrorCode, PlanError, Position, TidegateError
from tidegate.expr.model import REGISTRY, Call, Expr, Function, Kind, Literal, Now, Type, build, tree, types
from tidegate.expr.primitives import checked
from tidegate.plan import logical
from tidegate.sql.bind import constants as literal
from tidegate.sql.bind.rewrites import (
    PATTERN_OPERATORS,
    SHOWS_VALUES,
    json_subscript,
    match_patterns,
    shown,
    span,
)
from tidegate.sql.bind.rows import ROW_TESTS, compare_rows, is_row, row_test
from tidegate.sql.bind.scope import Scope
from tidegate.sql.bind.session import (
    CONSTANT_FUNCTIONS,
    CURRENT_TIME_FUNCTIONS,
    SESSION_FUNCTIONS,
    moment,
    session_constant,
    type_name,
)
from tidegate.sql.parse.lexer import Token
from tidegate.sql.parse.modifiers import MAX_DIGITS, TypeModifier
from tidegate.sql.parse.syntax import (
    AggregateCall,
    Apply,
    Case,
    Cast,
    Constant,
    Default,
    FieldAccess,
    In,
    Items,
    Junction,
    Name,
    Node,
    NonScalar,
    Quantified,
    Span,
    Star,
    walk,
)

_ALIASES = {
    "@": "abs",
    "^@": "starts_with",
    "char_length": "length",
    "character_length": "length",
    "pow": "power",
    "ceiling": "ceil",
    "btrim": "trim",
    "trim": "btrim",
    "json_typeof": "jsonb_typeof",
    "json_array_length": "jsonb_array_length",
    "json_build_object": "jsonb_build_object",
    "json_build_array": "jsonb_build_array",
    "json_strip_nulls": "jsonb_strip_nulls",
    "json_object": "jsonb_object",
    "json_extract_path": "jsonb_extract_path",
    "json_extract_path_text": "jsonb_extract_path_text",
    "jsonb_exists": "?",
    "jsonb_contains": "@>",
    "jsonb_contained": "<@",
    "array_to_json": "to_jsonb",
    "to_json": "to_jsonb",
    "row_to_json": "to_jsonb",
    "array_cat": "||",
    "textlen": "length",
}
"""Other names of a function, for where the name itself is not declared."""
_ONLY_SYNTAX = frozenset((
    "and", "or", "not", "case", "cast", "in", "field",
    "array", "row", "subscript", "slice", "slice to", "slice from",
))  # fmt: skip
"""Declared for the grammar's use: `"case"(x)` is no function."""


_PLACES = {
    "WHERE": "WHERE picks rows before they are aggregated; HAVING picks groups",
    "an aggregate": "one aggregation over another is not supported",
}
"""What to do instead of an aggregate there."""


class Binder:
    """Binds expressions of one SQL text over one scope.

    `now_ms` is what now() gives, in milliseconds since 1970; None where an expression outlives the statement,
    and now() is refused.
    """

    def __init__(self, sql: str, scope: Scope, now_ms: int | None, *, lasting: bool = False) -> None:
        """`lasting` is for transforms: what they compute must never change, so all functions are stable."""
        self.sql = sql
        self.scope = scope
        self.now_ms = now_ms
        self.lasting = lasting
        self._known: dict[int, Expr] = {}
        self._clause: str | None = None

    def position(self, at: Span) -> Position:
        """A place in the text."""
        return Position(self.sql, at.start, at.end)

    def bind(self, root: Node, clause: str | None = None) -> Expr:
        """The typed expression; a bare string or NULL keeps the type `unknown`. `clause` is for errors."""
        self._clause = clause
        known = self._known = {}
        for node in checked(walk(root)):
            args = tuple(known[id(arg)] for arg in node.args)
            try:
                known[id(node)] = made = self._bind_node(node, args)
                if self.lasting:
                    _check_stable(made)
            except TidegateError as error:
                if error.position is None:
                    error.position = self.position(self._blame(node, args))
                raise
        return known[id(root)]

    def condition(self, root: Node, clause: str) -> Expr:
        """An expression that must be a condition."""
        bound = self.bind(root, clause)
        try:
            return build.coerce(bound, types.BOOL)
        except TidegateError as error:
            error.message = f"{clause} wants a condition, and this is of type {bound.type}"
            error.hint = None
            error.position = self.position(root.at)
            raise

    def _bind_node(self, node: Node, args: tuple[Expr, ...]) -> Expr:
        """The meaning of one node, given that of its arguments."""
        match node:
            case Apply():
                return self._apply(node, args)
            case Name():
                return self.scope.find(node.parts)
            case Constant():
                return _constant(node)
            case Cast():
                return _explicit_cast(args[0], node.type, node.modifier)
            case Junction():
                return build.conjunction(args) if node.name == "and" else build.disjunction(args)
            case In():
                return self._in(node, args[0], args[1:])
            case Case():
                return build.case(list(zip(args[:-1:2], args[1:-1:2], strict=True)), args[-1])
            case Quantified() if node.operator in PATTERN_OPERATORS:
                return match_patterns(node.operator, node.quantifier, *args)
            case Quantified():
                return build.call(f"{node.quantifier} {node.operator}", *args)
            case FieldAccess():
                return build.field(args[0], node.name.text)
            case Items():
                # An empty array is of whatever type its surroundings want, just as the string '{}'.
                return build.call(node.kind, *args) if args or node.kind == "row" else build.text("{}")
            case Star() if node.qualifier and not node.args:
                raise logical.not_row_by_row("a whole row")
            case Star():
                raise BindError("* stands only in a select list, or in count(*)")
            case Default():
                raise BindError("DEFAULT stands only in VALUES and in SET")
            case AggregateCall():
                return self._aggregate(node)
            case NonScalar():
                raise logical.not_row_by_row(node.construct)
            case _:
                assert_never(node)

    def column(self, place: int, at: Span) -> Expr:
        """A column that `*` stands for; `at` is where that is written."""
        del at  # for those that may have to refuse it
        return self.scope.column(place)

    def _aggregate(self, node: AggregateCall) -> Expr:
        """An aggregate has no place in an expression over one row."""
        if self._clause is None:
            raise logical.not_row_by_row(f"the aggregate {node.name}")
        hint = _PLACES.get(self._clause)
        message = f"aggregates are not allowed in {self._clause}"
        raise BindError(message, code=ErrorCode.GROUPING_ERROR, hint=hint)

    def _apply(self, node: Apply, args: tuple[Expr, ...]) -> Expr:
        name = "substring" if node.name == "substr" else node.name
        if name == "mz_now" and not args:
            return Now()
        written = f"{name}()" if node.is_function else name
        if name in CURRENT_TIME_FUNCTIONS and not (args and node.is_function):
            return self._moment(name, written, *args)
        if name in SESSION_FUNCTIONS and not args:
            self._check_kept(written, "it is that of whoever asks")
            return session_constant(name)
        if name == "-" and len(args) == 1 and isinstance(args[0], Literal):
            return literal.negated(args[0], node.args[0]) or build.call(name, *args)
        if name == "is unknown":
            return build.call("is null", build.coerce(args[0], types.BOOL))
        if node.is_function and not args and (function := _volatile(name)) is not None:
            return Call(function, (self._call_site(node),), function.result_type(()))
        if node.is_function:
            return self._function(name, args)
        if name == "subscript" and args[0].type == types.JSONB:
            return json_subscript(*args)
        if name == "overlaps":
            return build.call(name, *span(*args[:2]), *span(*args[2:]))
        if name in ROW_TESTS and all(map(is_row, node.args)):
            return self._compare_rows(name, node.args)
        if not self.lasting and (test := row_test(node, args)) is not None:
            return test
        return build.call(name if REGISTRY.overloads(name) else _ALIASES.get(name, name), *args)

    def _call_site(self, node: Apply) -> Literal:
        """Tells one call of a volatile function from others: where in which text it is written."""
        return build.literal(crc32(self.sql.encode()) << 31 | node.at.start, types.INT8)

    def _function(self, name: str, args: tuple[Expr, ...]) -> Expr:
        if name in SHOWS_VALUES:
            args = tuple(map(shown, args))
        match name, len(args):
            case constant, 0 if constant in CONSTANT_FUNCTIONS:
                return session_constant(name)
            case "pg_typeof", 1:
                return build.literal(type_name(args[0].type), types.TEXT)
            case "age", 1:
                midnight = build.cast(self._moment("current_date", "age(x)"), types.TIMESTAMP)
                return build.call("age", midnight, args[0])
            case "length", 2:  # of bytes in a character set
                return build.call("length", build.call("convert_from", *args))
            case _:
                pass
        if not REGISTRY.overloads(name) or name in _ONLY_SYNTAX:
            if name in types.NAMES and len(args) == 1:  # date(x), text(x): a cast, as PostgreSQL has it
                return build.cast(args[0], types.NAMES[name])
            if REGISTRY.overloads(_ALIASES.get(name, "")):
                return build.call(_ALIASES[name], *args)
            if name in _ONLY_SYNTAX:
                raise BindError(f"function {name} does not exist", code=ErrorCode.UNDEFINED_FUNCTION)
        return build.call(name, *args)

    def _moment(self, name: str, written: str, *digits: Expr) -> Expr:
        self._check_kept(written, "use mz_now(), the time at which the collection is read")
        assert self.now_ms is not None
        return moment(name, self.now_ms, *(one.value.as_py() for one in digits if isinstance(one, Literal)))

    def _check_kept(self, written: str, hint: str | None) -> None:
        """Refuses what has a value only while a query is asked."""
        if self.now_ms is None:
            message = f"{written} has no fixed value in an expression that is kept"
            raise PlanError(message, construct=written, hint=hint)

    def _in(self, node: In, x: Expr, others: tuple[Expr, ...]) -> Expr:
        """Constants as one call with one array; the rest compared one by one."""
        literals = [other for other in others if isinstance(other, Literal)]
        head, *tail = node.args
        parts: list[Expr] = []
        for item, other in zip(tail, others, strict=True):
            if isinstance(head, Items) and isinstance(item, Items):
                parts.append(self._compare_rows("=", (head, item)))
            elif not isinstance(other, Literal):
                parts.append(build.call("=", x, other))
        if len(node.constants) + len(literals) == 1:
            parts.insert(0, build.call("=", x, literals[0] if literals else _spelled(node.constants[0])))
        elif node.constants or literals:
            try:
                found = literal.constant_list(x.type, node.constants, literals)
            except literal.ConstantError as error:
                token = node.constants[error.index]
                raise error.bind_error(Position(self.sql, token.start, token.end)) from None
            each = [] if found is not None else [*map(_spelled, node.constants), *literals]
            parts = [
                *([] if found is None else [build.call("in", x, found)]),
                *(build.call("=", x, one) for one in each),
                *parts,
            ]
        return build.disjunction(parts)

    def _compare_rows(self, name: str, rows: tuple[Node, ...]) -> Expr:
        left, right = ([self._known[id(value)] for value in row.args] for row in rows)
        return compare_rows(name, left, right)

    def _blame(self, node: Node, args: tuple[Expr, ...]) -> Span:
        """The place to point at: a constant that cannot be read as what is wanted, else the node itself."""
        if isinstance(node, Cast) and isinstance(node.args[0], Constant):
            return node.args[0].at
        for child, arg, target in zip(node.args, args, _targets(node, args), strict=False):
            try:
                build.coerce(arg, target)
            except TidegateError:
                return child.at
        return node.at


def _targets(node: Node, args: tuple[Expr, ...]) -> list[Type]:
    """The types that a node requires of its arguments, where they are known."""
    arg_types = [arg.type for arg in args]
    if isinstance(node, Case):
        common = build.common_type([*arg_types[1:-1:2], arg_types[-1]]) or types.TEXT
        return [common if i % 2 or i == len(args) - 1 else types.BOOL for i in range(len(args))]
    if not isinstance(node, Apply | Quantified):
        return []
    name = node.name if isinstance(node, Apply) else f"{node.quantifier} {node.operator}"
    try:
        return build.resolve(name, arg_types)[1]
    except TidegateError:
        return []


def _volatile(name: str) -> Function | None:
    """The volatile function of a name."""
    return next((function for function in REGISTRY.overloads(name) if function.volatile), None)


def _check_stable(expr: Expr) -> None:
    """Refuses a function, or a cast put around its arguments, whose results are not promised for ever."""
    for part in (expr, *tree.children(expr)):
        if isinstance(part, Call) and part.function.volatile:
            raise PlanError(
                f"{part.function.name}() gives another value whenever it is evaluated",
                construct=part.function.name,
                hint="a transform must give the same rows for ever; compute it where the rows are written or read",
            )
        if isinstance(part, Call) and not part.function.stable:
            raise PlanError(
                f"{part.function.signature} may change its results in a later version",
                construct=part.function.name,
                hint="a transform must give the same rows for ever: only stable functions may stand in it",
            )


def assignment_cast(expr: Expr, target: Type) -> Expr:
    """`expr` as the value of a column: numbers and times may be narrowed, anything may become text.

    A text is not cut to the n of varchar(n), as a cast would: the writer checks its length (`storage/part/conform.py`).
    """
    target = target.without_lengths
    same = (expr.type.is_number and target.is_number) or {expr.type.kind, target.kind} <= {
        Kind.DATE,
        Kind.TIMESTAMP,
        Kind.TIMESTAMPTZ,
    }
    narrowed = same or target.kind is Kind.TEXT or expr.type.kind is target.kind
    return build.cast(expr, target) if narrowed else build.coerce(expr, target)


def _explicit_cast(expr: Expr, target: Type, modifier: TypeModifier | None = None) -> Expr:
    """`expr::target`; plain numeric, unlike numeric(38,18), keeps the digits of numbers."""
    if modifier is not None:
        return _modified(expr, target, modifier)
    if target is types.NUMERIC:
        if expr.type.kind is Kind.NUMERIC:
            return expr
        if expr.type.is_integer:
            return build.cast(expr, types.numeric(build.numeric_digits(expr.type)[0], 0))
        if isinstance(expr, Literal) and expr.type == types.UNKNOWN and not expr.is_null:
            return literal.plain_numeric(expr.value.as_py()) or build.cast(expr, target)
    return build.cast(expr, target)


def _modified(expr: Expr, target: Type, modifier: TypeModifier) -> Expr:
    """A cast to `timestamp(3)` or `interval hour`; a constant interval is read with its fields."""
    digits = build.literal(MAX_DIGITS if modifier.digits is None else modifier.digits, types.INT4)
    if target != types.INTERVAL:
        return build.call("time_precision", build.cast(expr, target), digits)
    constant = isinstance(expr, Literal) and expr.type == types.UNKNOWN and not expr.is_null
    value = build.cast(expr, types.TEXT if constant else target)
    bound = build.call("interval_precision", value, build.literal(modifier.fields or "", types.TEXT), digits)
    return literal.folded(bound) if constant else bound


def _constant(node: Constant) -> Literal:
    if node.kind == "bool":
        return build.literal(node.text == "true", types.BOOL)
    return build.null() if node.kind == "null" else _spelled(node)


def _spelled(constant: Constant | Token) -> Literal:
    return build.text(constant.text) if constant.kind == "string" else literal.number(constant.text)
