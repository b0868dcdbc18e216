"""SQL as text: quoting of names and strings, and reading of qualified names.

>>> quote_name("Order"), quote_name("total"), quote_string("O'Hara")
('"Order"', 'total', "'O''Hara'")
>>> parse_name('"Some Schema".Table', strict=True)
['Some Schema', 'table']
"""

from __future__ import annotations

import re

from tidegate.expr.primitives.row_loop import RowFailure

_WORDS = (
    "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast char "
    "character check coalesce collate collation column concurrently constraint create cross current_catalog current_date "
    "current_role current_schema current_time current_timestamp current_user dec decimal default deferrable desc distinct do else "
    "end except exists extract false fetch float for foreign freeze from full grant greatest group grouping having ilike in "
    "initially inner inout int integer intersect interval into is isnull join lateral leading least left like limit localtime "
    "localtimestamp national natural nchar none normalize not notnull null nullif numeric offset on only or order out outer "
    "overlaps overlay placing position precision primary real references returning right row select session_user setof similar "
    "smallint some substring symmetric table tablesample then time timestamp to trailing treat trim true union unique user using "
    "values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces "
    "xmlparse xmlpi xmlroot xmlserialize xmltable"
)
KEYWORDS = frozenset(_WORDS.split())
"""Words that PostgreSQL 15 quotes when they are names."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")
_SPACE = " \t\n\r\f\v"
# What is not in a word, by its places in ASCII: a set up to U+10FFFF takes 2 ms to compile, which a cold start would wait for.
_WORD_START = re.compile(r"[^\x00-@\[-^`{-\x7f]")
_WORD = re.compile(r"[^\x00-#%-/:-@\[-^`{-\x7f]*")


def quote_name(name: str) -> str:
    """A name as it is written in SQL: in quotes unless it is a plain word."""
    if _PLAIN.match(name) and name not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_string(text: str) -> str:
    """A text as a string literal; with a backslash in it as E'…'."""
    doubled = text.replace("'", "''").replace("\\", "\\\\")
    return ("E'" if "\\" in text else "'") + doubled + "'"


def parse_name(text: str, *, strict: bool) -> list[str]:
    """The parts of a qualified name; if not `strict`, what follows it is ignored.

    Words without quotes are in lower case.
    """
    parts: list[str] = []
    at = _skip(text, 0)
    while True:
        part, at = _quoted(text, at) if text[at : at + 1] == '"' else _word(text, at)
        parts.append(part)
        at = _skip(text, at)
        if text[at : at + 1] != ".":
            break
        at = _skip(text, at + 1)
    if strict and at < len(text):
        raise RowFailure(f'string is not a valid identifier: "{text}"')
    return parts


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _quoted(text: str, at: int) -> tuple[str, int]:
    end = at + 1
    while True:
        end = text.find('"', end)
        if end < 0 or end == at + 1:
            raise RowFailure(f'string is not a valid identifier: "{text}"')
        if text[end + 1 : end + 2] != '"':
            return text[at + 1 : end].replace('""', '"'), end + 1
        end += 2


def _word(text: str, at: int) -> tuple[str, int]:
    if not _WORD_START.match(text, at):
        raise RowFailure(f'string is not a valid identifier: "{text}"')
    found = _WORD.match(text, at)
    assert found is not None
    return "".join(c.lower() if c.isascii() else c for c in found[0]), found.end()
