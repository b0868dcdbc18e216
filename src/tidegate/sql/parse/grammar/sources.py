"""The grammar of sources: CREATE CONNECTION and CREATE SOURCE, as Materialize spells them.

    CREATE SOURCE orders_30d
    FROM KAFKA CONNECTION k (TOPIC 'orders')
    FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION csr
    INCLUDE INGESTION TIMESTAMP AS ingest_ts
    TRANSFORM USING (SELECT * FROM orders_30d WHERE mz_now() <= ingest_ts + '30 days')

The clauses behind FROM may come in any order, each once. A transform is a query in parentheses, kept as a
tree and as the user's text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from tidegate.errors import ParseError, Position
from tidegate.sql.parse import syntax
from tidegate.sql.parse.grammar.queries import query
from tidegate.sql.parse.statement import (
    CreateConnection,
    CreateSource,
    Format,
    FormatKind,
    Include,
    Option,
    SubsourceClause,
    Value,
)
from tidegate.sql.parse.syntax import Ident
from tidegate.sql.parse.token_cursor import TokenCursor

_CONNECTED = ("kafka", "postgres")
"""Upstreams that are always reached by a connection."""
_KINDS = (*_CONNECTED, "files", "generator")
"""Upstreams whose first word is followed by words of their own grammar."""
_INCLUDES = (
    "key",
    "partition",
    "offset",
    "timestamp",
    "headers",
    "header",
    "ingestion timestamp",
    "file",
    "line",
)
_FORMATS = ("bytes", "text", "json", "csv", "avro", "parquet")


def create_connection(c: TokenCursor) -> CreateConnection:
    """What follows CREATE CONNECTION."""
    if_not_exists = c.eat("if", "not", "exists")
    name = c.name("the connection's name")
    c.expect("to")
    start = c.token.start
    words: list[str] = []
    while c.token.kind == "word":
        words.append(c.next().text)
    if not words:
        raise c.fail("KAFKA, POSTGRES, CONFLUENT SCHEMA REGISTRY or AWS")
    at = c.since(start)
    return CreateConnection(c.sql, name, " ".join(words), at, options(c), if_not_exists)


def options(c: TokenCursor) -> tuple[Option, ...]:
    """`(NAME value, …)`; none if no parenthesis comes."""
    if not c.eat("("):
        return ()
    if c.eat(")"):
        return ()
    found = c.comma_list(lambda: _option(c), trailing=True)
    c.expect(")", of="a comma")
    return found


def _option(c: TokenCursor) -> Option:
    """Words are the name; a value that is a word is the last of them, unless `=` says where it starts."""
    start = c.token
    words: list[str] = []
    while c.token.kind == "word":
        words.append(c.next().text)
    if not words:
        raise c.fail("an option's name")
    at = c.since(start.start)
    if c.eat("="):
        return Option(" ".join(words), value(c), at)
    if c.token.kind in ("string", "number", "quoted") or c.sees("(") or c.sees("-"):
        return Option(" ".join(words), value(c), at)
    if len(words) == 1:
        return Option(words[0], value=True, at=at, bare=True)
    return Option(" ".join(words[:-1]), _word(words[-1]), at)


def _word(word: str) -> Value:
    return {"true": True, "on": True, "false": False, "off": False}.get(word, word)


def value(c: TokenCursor) -> Value:
    """The value of an option: a string, number, word, TRUE or FALSE, or a list of these in parentheses."""
    if c.eat("("):
        c.enter()
        values = () if c.sees(")") else c.comma_list(lambda: value(c))
        c.expect(")", of="a comma")
        c.leave()
        return values
    sign = -1 if c.eat("-") else 1
    token = c.token
    if token.kind == "number":
        c.next()
        return sign * (
            int(token.text) if token.text.isdigit() and len(token.text) < 19 else float(token.text)
        )
    if token.kind == "end" or token.kind == "op" or sign < 0:
        raise c.fail("a string, a number or a word")
    c.next()
    return _word(token.text) if token.kind == "word" else token.text


# ---------------------------------------------------------------- CREATE SOURCE


def create_source(c: TokenCursor) -> CreateSource:
    """What follows CREATE SOURCE."""
    start = c.tokens[c.i - 2].start
    if_not_exists = c.eat("if", "not", "exists")
    name = c.name("the source's name")
    if c.eat("in", "cluster"):
        c.name("the cluster's name")
    c.expect("from")
    source = replace(_origin(c, name), if_not_exists=if_not_exists)
    seen: set[str] = set()
    while c.token.kind == "word" and c.token.text in _CLAUSES:
        clause, at = c.token.text, c.span()
        found = _CLAUSES[clause](c)
        key = (
            "format"
            if clause in ("key", "format")
            else next(iter(found))
            if clause == "transform"
            else clause
        )
        if key in seen:
            raise ParseError(f"{clause.upper()} is given twice", position=Position(c.sql, *at))
        seen.add(key)
        source = replace(source, **found)
    return replace(source, at=c.since(start))


def _origin(c: TokenCursor, name: Ident) -> CreateSource:
    """`KAFKA CONNECTION k (…)`, `FILES 'pattern' (…)`, `GENERATOR orders (…)`: any kind of upstream."""
    if c.sees("load", "generator"):
        c.next()
    if c.token.kind != "word":
        raise c.fail("KAFKA, FILES, POSTGRES or GENERATOR")
    start = c.token.start
    kind = _kind(c)
    at = c.since(start)
    connection, target = None, None
    if kind in _CONNECTED or c.sees("connection"):
        c.expect("connection")
        connection = c.name("the connection's name")
    elif kind == "files":
        target = c.string("a path in quotes, such as 'dir/*.json'")
    elif kind == "generator":
        target = c.name("the generator's name").text
    else:
        target = _target(c)
    return CreateSource(c.sql, name, kind, at, connection, target, options(c))


def _kind(c: TokenCursor) -> str:
    """The kind of an upstream: one word, or all words before CONNECTION, as in `SQL SERVER CONNECTION c`."""
    first = c.next().text
    if first in _KINDS:
        return first
    count = 0
    while c.ahead(count).kind == "word" and c.ahead(count).text not in ("connection", *_CLAUSES):
        count += 1
    more = [c.next().text for _ in range(count)] if c.sees("connection", skip=count) else []
    return " ".join((first, *more))


def _target(c: TokenCursor) -> str | None:
    """A string or a name, if one comes before the options and clauses."""
    token = c.token
    if token.kind not in ("string", "quoted", "word") or token.text in _CLAUSES:
        return None
    return c.next().text


def _formats(c: TokenCursor) -> dict[str, Any]:
    if c.eat("key"):
        c.expect("format")
        key = _format(c)
        c.expect("value", "format")
        return {"key_format": key, "format": _format(c)}
    c.expect("format")
    return {"format": _format(c)}


def _format(c: TokenCursor) -> Format:
    start = c.token
    kind = c.eat_any(*_FORMATS)
    if kind is None:
        raise c.fail("BYTES, TEXT, JSON, CSV, AVRO or PARQUET")
    details = {"csv": _csv, "avro": _avro}.get(kind)
    found = details(c) if details else options(c)
    return Format(cast("FormatKind", kind), found, c.since(start.start))


def _csv(c: TokenCursor) -> tuple[Option, ...]:
    """[WITH HEADER [(names)] | WITH n COLUMNS] [DELIMITED BY ','] [(options)]."""
    found: list[Option] = []
    while True:
        at = c.span()
        if c.sees("with", "header"):
            c.i += 2
            names: Value = True
            if c.sees("("):
                c.next()
                names = tuple(name.text for name in c.comma_list(lambda: c.name("a column's name")))
                c.expect(")", of="a comma")
            found.append(Option("header", names, at))
        elif c.sees("with") and c.ahead(1).kind == "number":
            c.next()
            found.append(Option("columns", c.integer("a number of columns"), at))
            c.expect("columns")
        elif c.eat("delimited", "by"):
            found.append(Option("delimiter", c.string("a delimiter in quotes"), at))
        else:
            return (*found, *options(c))


def _avro(c: TokenCursor) -> tuple[Option, ...]:
    """USING SCHEMA '…', SCHEMA FILE 'path', or CONFLUENT SCHEMA REGISTRY (CONNECTION name | 'url')."""
    if not c.eat("using"):
        return options(c)
    at = c.span()
    if c.eat("schema"):
        name = "schema file" if c.eat("file") else "schema"
        return (Option(name, c.string("a schema in quotes, or FILE and a path"), at), *options(c))
    c.expect("confluent", of="SCHEMA")
    c.expect("schema", "registry")
    if c.token.kind == "string":
        return (Option("url", c.next().text, at), *options(c))
    c.expect("connection", of="a URL in quotes")
    return (Option("registry", c.name("the connection's name").text, at), *options(c))


def _include(c: TokenCursor) -> dict[str, Any]:
    c.expect("include")
    return {"include": c.comma_list(lambda: _included(c))}


def _included(c: TokenCursor) -> Include:
    start = c.token
    what = "ingestion timestamp" if c.eat("ingestion", "timestamp") else c.eat_any(*_INCLUDES)
    if what is None:
        raise c.fail(
            "KEY, PARTITION, OFFSET, TIMESTAMP, HEADERS, HEADER 'name', INGESTION TIMESTAMP, FILE or LINE"
        )
    argument = c.string("a header's name in quotes") if what == "header" else None
    alias = c.label("a column's name") if c.eat("as") else None
    if what == "header" and c.eat("bytes"):
        what = "header bytes"
    return Include(what, alias, argument, c.since(start.start))


def _envelope(c: TokenCursor) -> dict[str, Any]:
    c.expect("envelope")
    found = c.eat_any("none", "upsert", "debezium")
    if found is None:
        raise c.fail("NONE, UPSERT or DEBEZIUM")
    return {"envelope": found}


def _transform(c: TokenCursor) -> dict[str, Any]:
    c.expect("transform")
    return {"before" if c.eat("before", "envelope") else "transform": using(c)}


def using(c: TokenCursor) -> syntax.Query:
    """USING (query)."""
    c.expect("using")
    c.expect("(")
    found = query(c)
    c.expect(")")
    return found


def _for(c: TokenCursor) -> dict[str, Any]:
    c.expect("for")
    if c.eat("all", "tables"):
        return {"all_tables": True}
    c.expect("tables", of="ALL TABLES")
    c.expect("(")
    tables = c.comma_list(lambda: _subsource(c), trailing=True)
    c.expect(")", of="a comma")
    return {"tables": tables}


def _subsource(c: TokenCursor) -> SubsourceClause:
    """`table [AS name] [TRANSFORM USING (query)] [AS name]`: the seeds put the name last."""
    table = c.qualified("a table's name")
    alias = c.name("a name") if c.eat("as") else None
    transform = using(c) if c.eat("transform") else None
    if alias is None and c.eat("as"):
        alias = c.name("a name")
    return SubsourceClause(table, alias, transform)


def cluster_by(c: TokenCursor) -> dict[str, Any]:
    """CLUSTER BY (a, b)."""
    c.expect("cluster", "by")
    c.expect("(")
    names = c.comma_list(lambda: c.name("a column's name"))
    c.expect(")", of="a comma")
    return {"cluster_by": names}


def keep_statistics(c: TokenCursor) -> dict[str, Any]:
    """KEEP STATISTICS (a, payload.ts)."""
    c.expect("keep", "statistics")
    c.expect("(")
    paths = c.comma_list(lambda: c.qualified("a column's name"))
    c.expect(")", of="a comma")
    return {"keep_statistics": paths}


def _with(c: TokenCursor) -> dict[str, Any]:
    c.expect("with")
    if not c.sees("("):
        raise c.fail('"("')
    return {"with_options": options(c)}


_CLAUSES: dict[str, Callable[[TokenCursor], dict[str, Any]]] = {
    "key": _formats,
    "format": _formats,
    "include": _include,
    "envelope": _envelope,
    "transform": _transform,
    "for": _for,
    "cluster": cluster_by,
    "keep": keep_statistics,
    "with": _with,
}
