r"""Which type a parameter has, of which the client says none: asked by drivers that send values as the server wants them.

    SELECT name FROM orders WHERE id = $1         $1 is int8, as `id` is
    INSERT INTO orders (id, name) VALUES ($1, $2) int8, text: as the columns are
    UPDATE orders SET price = $1 WHERE id = $2    numeric, int8
    SELECT $1                                     text

A literal without a type takes the one that its place wants. So each parameter in turn is given a text that no type but text can
read, the query is bound, and the refusal names the type: `invalid input syntax for type bigint: "\x?"`. Nothing is run. What
that does not tell stays text, which is what PostgreSQL says where it cannot know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tidegate.errors import BindError, TidegateError
from tidegate.expr.types import NAMES, Type, array
from tidegate.serve.pg.holes import Filled, Piece, fill
from tidegate.serve.pg.types import oid, spelled
from tidegate.session.lake import Lake, Seen
from tidegate.sql.catalog import Relation

MAX = 64
"""Parameters of one statement that are looked at: each costs a binding."""
_PROBE = "\\x?"
_REFUSAL = re.compile(r'invalid input syntax for type ([a-z ]+)(?:: "|$)')


def inferred(piece: Piece, oids: Sequence[int], bind: Callable[[str], object], lake: Lake) -> tuple[int, ...]:
    """The types of all parameters, as far as they can be told."""
    unknown = [i for i, one in enumerate(oids) if one == 0][:MAX]
    if not unknown:
        return tuple(oids)
    found = list(oids)
    if piece.words(1)[0] == "insert":
        for i, type_ in _inserted(piece, lake).items():
            found[i] = found[i] or oid(type_)
    types = [spelled(one) for one in oids]
    for i in unknown:
        found[i] = found[i] or _probed(piece, types, i, bind)
    return tuple(found)


def _probed(piece: Piece, types: Sequence[str | None], i: int, bind: Callable[[str], object]) -> int:
    """What a binding says of one parameter; 0: nothing."""
    type_ = _refused(fill(piece, types, _only(len(types), i, _PROBE)), bind)
    if type_ == "array":
        element = _refused(fill(piece, types, _only(len(types), i, "{?}")), bind)
        return oid(array(element)) if isinstance(element, Type) else 0
    return oid(type_) if isinstance(type_, Type) else 0


def _only(count: int, i: int, value: str) -> list[str | None]:
    return [value if j == i else None for j in range(count)]


def _refused(filled: Filled, bind: Callable[[str], object]) -> Type | str | None:
    """The type by which the text was refused."""
    try:
        bind(filled.text)
    except BindError as error:
        hit = _REFUSAL.search(error.message)
        if hit is not None:
            return NAMES.get(hit[1].strip())
        if "array" in error.message:
            return "array"
        return NAMES["bytea"] if "hexadecimal" in error.message else None
    except TidegateError:
        return None
    return None


def _inserted(piece: Piece, lake: Lake) -> dict[int, Type]:
    """Of INSERT … VALUES ($1, $2): the types of the columns that parameters stand for."""
    given = piece.tokens
    words = [one.text if one.kind in ("word", "quoted", "op") else "" for one in given]
    start = next((i for i, one in enumerate(given) if one.kind == "word" and one.text == "values"), None)
    into = words.index("into") + 1 if "into" in words else len(words)
    if start is None or into >= start:
        return {}
    into += 2 if words[into + 1] == "." else 0
    entry = Seen(lake).relation(words[into])
    if not isinstance(entry, Relation):
        return {}
    types = dict(entry.columns)
    names = [one for one in words[into + 1 : start] if one not in ("(", ")", ",")] or list(types)
    found: dict[int, Type] = {}
    depth = place = 0
    for i in range(start + 1, len(given)):
        depth += {"(": 1, ")": -1}.get(words[i], 0)
        place = 0 if depth == 0 else place + (words[i] == "," and depth == 1)
        alone = (
            given[i].kind == "parameter"
            and words[i - 1] in ("(", ",")
            and words[i + 1 : i + 2] in ([","], [")"])
        )
        if alone and depth == 1 and place < len(names) and names[place] in types:
            found.setdefault(int(given[i].text) - 1, types[names[place]])
    return found
