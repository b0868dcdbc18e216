"""The grammar of expressions: operators by binding power, as PostgreSQL ranks them.

    OR < AND < NOT < IS < comparison < BETWEEN, IN, LIKE < other operators < + - < * / % < ^ < AT TIME ZONE <
    COLLATE < unary - < :: < .

So `data -> 'a' + 1` is `data -> ('a' + 1)`, `-2 ^ 2` is 4, `NOT a = b` is `NOT (a = b)`, and `a < b < c` is refused. Levels of
nesting (parentheses, CASE, arguments) are counted, since each costs stack frames; a chain of operators costs none.
"""

from __future__ import annotations

from typing import Literal

from tidegate.errors import Position, UnsupportedError
from tidegate.expr.model import types
from tidegate.sql.parse.grammar.calls import SPECIAL, call, case, overlaps, similar
from tidegate.sql.parse.grammar.lookahead import QUERY_STARTS, query_follows
from tidegate.sql.parse.grammar.types import cast_to, starts_typed_constant, typed_constant
from tidegate.sql.parse.lexer import Token
from tidegate.sql.parse.syntax import (
    Apply,
    Cast,
    Compared,
    Constant,
    FieldAccess,
    Ident,
    In,
    Items,
    Junction,
    Name,
    Node,
    NonScalar,
    Quantified,
    Span,
    Star,
)
from tidegate.sql.parse.token_cursor import TokenCursor, is_name, words

(
    OR,
    AND,
    NOT,
    IS,
    COMPARISON,
    MEMBERSHIP,
    OTHER,
    SUM,
    PRODUCT,
    POWER,
    ZONE,
    COLLATE,
    MINUS,
    SUBSCRIPT,
    CAST,
) = range(1, 16)

_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
_POWERS: dict[str, int] = {
    **dict.fromkeys(_COMPARISONS, COMPARISON),
    **dict.fromkeys(words("-> ->> #> #>> #- @> <@ ? ?| ?& @? @@ ^@ || && << >> & | # @"), OTHER),
    **dict.fromkeys(words("!~~* !~~ ~~* ~~ !~* !~ ~* ~"), OTHER),
    "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT, "^": POWER, "::": CAST,
    "or": OR, "and": AND, "is": IS, "isnull": IS, "notnull": IS, "between": MEMBERSHIP, "in": MEMBERSHIP,
    "like": MEMBERSHIP, "ilike": MEMBERSHIP, "similar": MEMBERSHIP, "overlaps": MEMBERSHIP, "at": ZONE, "collate": COLLATE,
}  # fmt: skip
_NEGATABLE = ("between", "in", "like", "ilike", "similar")
_LIKES = {"~~": "like", "~~*": "ilike", "!~~": "like", "!~~*": "ilike"}
_ROOTS = {"|/": "sqrt", "||/": "cbrt"}


def expression(c: TokenCursor, power: int = OR) -> Node:
    """An expression whose operators bind at least as tightly as `power`."""
    c.enter()
    left = _prefix(c)
    while True:
        found = _infix(c)
        if found < power or found == 0:
            c.leave()
            return left
        left = _continue(c, left, found)


def _infix(c: TokenCursor) -> int:
    """How tightly what comes next binds as an operator; 0 if it is none."""
    token = c.token
    if token.kind not in ("word", "op"):
        return 0
    if token.text == "not":
        return MEMBERSHIP if c.ahead(1).text in _NEGATABLE and c.ahead(1).kind == "word" else 0
    if token.text == "at" and token.kind == "word":
        return ZONE if c.sees("time", "zone", skip=1) else 0
    return _POWERS.get(token.text, 0)


def _continue(c: TokenCursor, left: Node, power: int) -> Node:
    """An operator and what stands on its right."""
    if power in (OR, AND):
        return _junction(c, left, "or" if power == OR else "and", power)
    if power == IS:
        return _test(c, left)
    if power == MEMBERSHIP:
        return _membership(c, left)
    if power == ZONE:
        at = c.expect("at", "time", "zone")
        return Apply("timezone", (expression(c, ZONE + 1), left), at)
    if power == COLLATE:
        return _collate(c, left)
    if power == CAST:
        at = c.expect("::")
        return cast_to(c, left, at)
    return _binary(c, left, power)


def _collate(c: TokenCursor, left: Node) -> Node:
    at = c.expect("collate")
    if c.qualified("a collation")[-1].text not in ("C", "POSIX", "ucs_basic", "default"):
        hint = 'leave COLLATE out, or write COLLATE "C"'
        raise UnsupportedError(
            "text is ordered by code point here, always", hint=hint, position=Position(c.sql, *at)
        )
    return left


def _junction(c: TokenCursor, left: Node, name: Literal["and", "or"], power: int) -> Node:
    """A chain of ANDs or ORs as one node, however long."""
    at, parts = c.span(), [left]
    while c.eat(name):
        parts.append(expression(c, power + 1))
    return Junction(name, tuple(parts), at)


def _binary(c: TokenCursor, left: Node, power: int) -> Node:
    token = c.next()
    at = Span(token.start, token.end)
    quantifier = c.eat_any("any", "some", "all") if c.sees("(", skip=1) else None
    if quantifier is not None:
        return _quantified(c, left, token.text, "all" if quantifier == "all" else "any", at)
    right = expression(c, power + 1)
    if power == COMPARISON and _infix(c) == COMPARISON:
        raise c.fail(
            "AND, OR or the end of the expression", hint="comparisons do not chain: write a < b AND b < c"
        )
    if token.text in _LIKES:
        liked = Apply(_LIKES[token.text], (left, right), at)
        return Apply("not", (liked,), at) if token.text[0] == "!" else liked
    return Apply(token.text, (left, right), at)


def _quantified(
    c: TokenCursor, left: Node, operator: str, quantifier: Literal["any", "all"], at: Span
) -> Node:
    c.expect("(")
    if query_follows(c):
        return _subquery(c, f"a subquery in {quantifier.upper()}", at, quantifier, operator, (left,))
    values = expression(c)
    c.expect(")")
    return Quantified(operator, quantifier, (left, values), at)


def _test(c: TokenCursor, left: Node) -> Node:
    """IS [NOT] NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM; ISNULL and NOTNULL."""
    at = c.span()
    word = c.next().text
    if word in ("isnull", "notnull"):
        negated, name = word == "notnull", "is null"
    else:
        negated = c.eat("not")
        if c.eat("distinct"):
            c.expect("from")
            test = Apply("is distinct from", (left, expression(c, IS + 1)), at)
            return Apply("not", (test,), at) if negated else test
        found = c.eat_any("null", "true", "false", "unknown")
        if found is None:
            raise c.fail("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        name = f"is {found}"
    test = Apply(name, (left,), at)
    return Apply("not", (test,), at) if negated else test


def _membership(c: TokenCursor, left: Node) -> Node:
    """[NOT] BETWEEN, IN, LIKE, ILIKE."""
    start = c.token.start
    negated = c.eat("not")
    word = c.next().text
    at = c.since(start)
    if word == "between":
        return _between(c, left, at, negated)
    if word == "in":
        found = _in(c, left, at)
    elif word == "similar":
        found = similar(c, left, expression, MEMBERSHIP + 1, at)
    elif word == "overlaps":
        found = overlaps(c, left, expression(c, MEMBERSHIP + 1), at)
    elif c.sees("(", skip=1) and (quantifier := c.eat_any("any", "some", "all")) is not None:
        operator = f"not {word}" if negated else word
        return _quantified(c, left, operator, "all" if quantifier == "all" else "any", at)
    else:
        pattern = expression(c, MEMBERSHIP + 1)
        escape = (expression(c, MEMBERSHIP + 1),) if c.eat("escape") else ()
        found = Apply(word, (left, pattern, *escape), at)
    return Apply("not", (found,), at) if negated else found


def _between(c: TokenCursor, x: Node, at: Span, negated: bool) -> Node:
    symmetric = c.eat("symmetric")
    if not symmetric:
        c.eat("asymmetric")
    low = expression(c, MEMBERSHIP + 1)
    c.expect("and")
    high = expression(c, MEMBERSHIP + 1)

    def within(a: Node, b: Node) -> Node:
        if negated:
            return Junction("or", (Apply("<", (x, a), at), Apply(">", (x, b), at)), at)
        return Junction("and", (Apply(">=", (x, a), at), Apply("<=", (x, b), at)), at)

    if not symmetric:
        return within(low, high)
    return Junction("and" if negated else "or", (within(low, high), within(high, low)), at)


def _in(c: TokenCursor, x: Node, at: Span) -> Node:
    c.expect("(")
    if query_follows(c):
        return _subquery(c, "a subquery in IN", at, "any", "=", (x,))
    items: list[Node] = [x]
    constants: list[Token] = []
    while True:
        _take_constants(c, constants)
        if c.token.kind in ("number", "string") and c.sees(")", skip=1):
            constants.append(c.next())
        else:
            items.append(expression(c))
        if not c.eat(","):
            c.expect(")", of="a comma")
            return In(tuple(items), tuple(constants), at)


def _take_constants(c: TokenCursor, into: list[Token]) -> None:
    """Takes constants with a comma behind them, as many as come: ten thousand must not take long."""
    tokens, i = c.tokens, c.i
    while tokens[i].kind in ("number", "string") and tokens[i + 1].text == "," and tokens[i + 1].kind == "op":
        into.append(tokens[i])
        i += 2
    c.i = i


# ---------------------------------------------------------------- operands


def _prefix(c: TokenCursor) -> Node:
    """An operand, with the operators that stand before it and the subscripts and fields behind it."""
    token = c.token
    at = Span(token.start, token.end)
    if token.kind == "op":
        return _signed(c, token.text, at)
    if token.kind in ("string", "number", "parameter"):
        c.i += 1
        return _indirect(c, c.constant(token))
    if token.kind == "word":
        if token.text == "not":
            c.i += 1
            return Apply("not", (expression(c, NOT),), at)
        if starts_typed_constant(c):
            return _indirect(c, typed_constant(c))
        special = _word(c, token.text, at)
        if special is not None:
            return _indirect(c, special)
    if not is_name(token) and not (
        token.kind == "word" and c.sees("(", skip=1) and token.text not in QUERY_STARTS
    ):
        hint = f'"{token.text}" is a reserved word: quote it to use it as a name'
        raise c.fail("an expression", hint=hint if token.kind == "word" else None)
    return _indirect(c, _name_or_call(c))


def _signed(c: TokenCursor, sign: str, at: Span) -> Node:
    """What starts with a sign: parentheses, a minus, another prefix operator."""
    if sign == "(":
        return _indirect(c, _parentheses(c, at))
    if sign not in ("-", "+", "~", "@", *_ROOTS):
        raise c.fail("an expression")
    c.i += 1
    if sign in _ROOTS:
        return Apply(_ROOTS[sign], (Cast((expression(c, SUM),), types.FLOAT8, at),), at)
    operand = expression(c, MINUS if sign in "+-" else SUM)
    return operand if sign == "+" else Apply(sign, (operand,), at)


def _parentheses(c: TokenCursor, at: Span) -> Node:
    c.expect("(")
    if query_follows(c):
        return _subquery(c, "a subquery in an expression", at)
    inner = expression(c)
    if c.sees(","):
        items = [inner]
        while c.eat(","):
            items.append(expression(c))
        c.expect(")", of="a comma")
        return Items("row", tuple(items), at)
    c.expect(")", of="an operator")
    return inner


def _subquery(
    c: TokenCursor,
    construct: str,
    at: Span,
    kind: Compared = "scalar",
    operator: str = "=",
    args: tuple[Node, ...] = (),
) -> Node:
    """A query inside an expression, and the parenthesis that closes it."""
    from tidegate.sql.parse.grammar.queries import query

    inner = query(c)
    c.expect(")")
    return NonScalar(construct, at, inner, args, kind, operator)


def _word(c: TokenCursor, word: str, at: Span) -> Node | None:
    """What starts with a word that is no name: TRUE, CASE, ARRAY, ROW, EXISTS; None if it is a name."""
    if word in ("true", "false", "null"):
        c.i += 1
        return Constant("null" if word == "null" else "bool", word, at)
    if word == "case":
        return case(c, expression)
    if word in SPECIAL:
        return SPECIAL[word](c, expression)
    if word == "array" and c.sees("[", skip=1):
        c.i += 1
        return _array(c, at)
    if word == "row" and c.sees("(", skip=1):
        c.i += 2
        items = () if c.sees(")") else c.comma_list(lambda: expression(c))
        c.expect(")", of="a comma")
        return Items("row", items, at)
    if word in ("exists", "array") and c.sees("(", skip=1) and query_follows(c, skip=2):
        c.i += 2
        return _subquery(c, f"a subquery in {word.upper()}", at, "exists" if word == "exists" else "array")
    return None


def _array(c: TokenCursor, at: Span) -> Node:
    c.enter()
    c.expect("[")
    if c.eat("]"):
        c.leave()
        return Items("array", (), at)
    inner = c.comma_list(lambda: _array(c, c.span()) if c.sees("[") else expression(c))
    c.expect("]", of="a comma")
    c.leave()
    return Items("array", inner, at)


def _name_or_call(c: TokenCursor) -> Node:
    start = c.token
    parts = [c.label("an expression")]
    while c.sees(".") and c.ahead(1).kind in ("word", "quoted"):
        c.i += 1
        parts.append(c.label("a name"))
    if c.sees("("):
        return call(c, tuple(parts), expression)
    if c.sees(".", "*"):
        c.i += 2
        return Star(tuple(parts), c.since(start.start))
    return Name(tuple(parts), c.since(start.start))


def _indirect(c: TokenCursor, base: Node) -> Node:
    """Subscripts, slices and fields behind an operand."""
    while True:
        at = c.span()
        if c.eat("."):
            if c.eat("*"):
                return Star((), at, (base,))
            name = c.label("a field's name")
            base = FieldAccess(Ident(name.text, name.at), (base,), name.at)
        elif c.eat("["):
            base = _subscript(c, base, at)
        else:
            return base


def _subscript(c: TokenCursor, base: Node, at: Span) -> Node:
    """`[i]`, `[from:to]`, either end of which may be missing."""
    low = None if c.sees(":") else expression(c)
    if not c.eat(":"):
        c.expect("]", of="an operator")
        assert low is not None
        return Apply("subscript", (base, low), at)
    high = None if c.sees("]") else expression(c)
    c.expect("]", of="an operator")
    if low is None or high is None:
        bound, name = low or high, "slice to" if low is None else "slice from"
        return base if bound is None else Apply(name, (base, bound), at)
    return Apply("slice", (base, low, high), at)
