r"""Infers the types of parameters that the client did not declare, for drivers that ask.

    SELECT name FROM orders WHERE id = $1         $1 is int8, as `id` is
    INSERT INTO orders (id, name) VALUES ($1, $2) int8, text: as the columns are
    UPDATE orders SET price = $1 WHERE id = $2    numeric, int8
    SELECT $1                                     text

A literal without a type takes the type that its place requires. So each parameter in turn is replaced by a string that no
type but text can read, the query is bound, and the error (its code is one of `_UNREADABLE`) names the type. Nothing is run. Where
that gives no type the parameter is text, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.context import CatalogSnapshot, Context
from tidegate.errors import BindError, ErrorCode, TidegateError
from tidegate.expr.model import Type, types
from tidegate.server.postgres.parameters import substitute
from tidegate.sql.bind import Relation
from tidegate.sql.parse import StatementText
from tidegate.statements.postgres_catalog import postgres_types

MAX_INFERRED = 64
"""Parameters of one statement whose type is inferred: each costs a binding."""
_PROBE = "\\x?"
_UNREADABLE = (ErrorCode.INVALID_LITERAL, ErrorCode.INVALID_DATETIME)
"""What an error says if the probe is not a value of the type that its place requires."""


def infer_types(
    piece: StatementText, oids: Sequence[int], bind: Callable[[str], object], lake: Context
) -> tuple[int, ...]:
    """Returns the types of all parameters; 0 where none can be inferred."""
    unknown = [i for i, number in enumerate(oids) if number == 0][:MAX_INFERRED]
    if not unknown:
        return tuple(oids)
    inferred = list(oids)
    if piece.words(1)[0] == "insert":
        for i, type_ in _insert_types(piece, lake).items():
            inferred[i] = inferred[i] or postgres_types.oid(type_)
    types = [postgres_types.sql_name(number) for number in oids]
    for i in unknown:
        inferred[i] = inferred[i] or _probe_type(piece, types, i, bind)
    return tuple(inferred)


def _probe_type(
    piece: StatementText, types: Sequence[str | None], i: int, bind: Callable[[str], object]
) -> int:
    """Returns the type that binding demands of one parameter; 0: none."""
    values = [_PROBE if j == i else None for j in range(len(types))]
    try:
        bind(substitute(piece, types, values).text)
    except TidegateError as error:
        if error.code in _UNREADABLE and error.subject is not None:
            return _oid_of_name(error.subject)
    return 0


def _oid_of_name(name: str) -> int:
    try:
        return postgres_types.oid(types.parse_type(name))
    except BindError:  # a record, which no driver sends
        return 0


def _insert_types(piece: StatementText, lake: Context) -> dict[int, Type]:
    """Returns the types of the columns that parameters of INSERT … VALUES ($1, $2) stand for."""
    tokens = piece.tokens
    words = [token.text if token.kind in ("word", "quoted", "op") else "" for token in tokens]
    start = next((i for i, t in enumerate(tokens) if t.kind == "word" and t.text == "values"), None)
    into = words.index("into") + 1 if "into" in words else len(words)
    if start is None or into >= start:
        return {}
    into += 2 if words[into + 1] == "." else 0
    entry = CatalogSnapshot(lake).relation(words[into])
    if not isinstance(entry, Relation):
        return {}
    types = dict(entry.columns)
    names = [word for word in words[into + 1 : start] if word not in ("(", ")", ",")] or list(types)
    inserted: dict[int, Type] = {}
    depth = place = 0
    for i in range(start + 1, len(tokens)):
        depth += {"(": 1, ")": -1}.get(words[i], 0)
        place = 0 if depth == 0 else place + (words[i] == "," and depth == 1)
        alone = (
            tokens[i].kind == "parameter"
            and words[i - 1] in ("(", ",")
            and words[i + 1 : i + 2] in ([","], [")"])
        )
        if alone and depth == 1 and place < len(names) and names[place] in types:
            inserted.setdefault(int(tokens[i].text) - 1, types[names[place]])
    return inserted
