"""The options of EXPLAIN in parentheses, as PostgreSQL has them: `EXPLAIN (ANALYZE, FORMAT JSON)`."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.sql.parse.token_cursor import TokenCursor, words

_OPTIONS = words("analyze buffers costs format settings summary timing verbose wal")


class ExplainOptions(NamedTuple):
    """What is asked of EXPLAIN."""

    analyze: bool = False
    as_json: bool = False


def explain_options(c: TokenCursor) -> ExplainOptions:
    """Reads options, if they come next; `EXPLAIN (SELECT …)` has none."""
    if not (c.token.text == "(" and c.ahead(1).text in _OPTIONS and c.eat("(")):
        return ExplainOptions()
    found = dict(c.comma_list(lambda: _option(c)))
    c.expect(")", of="a comma")
    return ExplainOptions(found.get("analyze") == "on", found.get("format") == "json")


def _option(c: TokenCursor) -> tuple[str, str]:
    """An option and its value; what PostgreSQL counts and we do not is accepted, and changes nothing."""
    name = c.eat_any(*sorted(_OPTIONS))
    if name is None:
        raise c.fail("ANALYZE or FORMAT")
    if name == "format":
        value = c.eat_any("json", "text")
        if value is None:
            raise c.fail("JSON or TEXT")
        return name, value
    if c.eat_any("true", "on"):
        return name, "on"
    return name, "off" if c.eat_any("false", "off") else "on"
