"""Looks ahead for a query: parentheses may hold an expression, a join, or a query in others.

((SELECT 1) UNION SELECT 2)      a query          ((SELECT 1) + 2)                 an expression
FROM ((SELECT 1) LIMIT 1) t      a query          FROM ((SELECT 1) a JOIN b ON …)  a join
"""

from __future__ import annotations

from tidegate.config import MAX_NESTING
from tidegate.sql.parse.token_cursor import TokenCursor

QUERY_STARTS = ("select", "with", "values", "table")
"""Words that a query starts with."""
_BEHIND_QUERY = (")", "union", "intersect", "except", "order", "limit", "offset", "fetch")
"""What follows a query in parentheses inside of others that hold a query too."""


def query_follows(c: TokenCursor, skip: int = 0) -> bool:
    """Whether a query comes after `skip` tokens, in parentheses or not."""
    depth = 0
    while c.sees("(", skip=skip + depth):
        depth += 1
        if depth > MAX_NESTING:  # else ten thousand parentheses are looked through ten thousand times
            raise c.too_deep()
    token = c.ahead(skip + depth)
    if token.kind != "word" or token.text not in QUERY_STARTS:
        return False
    if not depth:
        return True
    place = c.i + skip + depth
    while place < len(c.tokens) and depth > 0:
        token = c.tokens[place]
        if token.kind == "op":
            depth += (token.text == "(") - (token.text == ")")
        place += 1
    return place >= len(c.tokens) or c.tokens[place].text in _BEHIND_QUERY
