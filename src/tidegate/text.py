"""Names in SQL: which words cannot be one as they stand, and how each name is written so that the parser reads it back.

    identifier("price")       price
    identifier("Price")       "Price"      unquoted it would be folded to price
    identifier("order")       "order"      a word of the grammar

Whoever builds SQL, or prints a name in it, calls `identifier`. The parser takes its reserved words from here, and a law
(`tests/laws/test_names.py`) parses every word of the grammar as each kind of name.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words(
    "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint "
    "create current_catalog current_date current_role current_time current_timestamp current_user default "
    "deferrable desc distinct do else end except false fetch for foreign from grant group having in "
    "initially intersect into lateral leading limit localtime localtimestamp not null offset on only or "
    "order placing primary references returning select session_user some symmetric table then to trailing "
    "true union unique user using variadic when where window with"
)
"""Words that PostgreSQL lets nobody use as a name unless it is quoted."""

JOINING = _words(
    "cross full ilike inner is isnull join left like natural notnull outer right similar tablesample"
)
"""Words that may name a function (`left(s, 2)`), but neither a table nor an alias without AS."""

CONTEXTUAL = _words("exclude generated recursive values")
"""Words that the parser reads as a clause in some places where a name may stand."""

_QUOTED = RESERVED | JOINING | CONTEXTUAL
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def identifier(name: str) -> str:
    """A name as SQL reads it back: quoted unless it is plain and no word of the grammar."""
    if _PLAIN.fullmatch(name) and name not in _QUOTED:
        return name
    return '"' + name.replace('"', '""') + '"'
