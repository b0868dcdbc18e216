"""CREATE CONNECTION, and what a connection is to those who use it.

    CREATE CONNECTION k TO KAFKA (BROKER 'host:9092')
    CREATE CONNECTION pg TO POSTGRES (HOST 'db', DATABASE 'shop', USER 'etl', PASSWORD 'env:PGPASSWORD')

Options are kept as they were written: a secret that refers to the environment or to a file stays a reference, and is followed by
whoever connects. One that is written out is kept, and shown to nobody.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from tidegate.errors import BindError, Position
from tidegate.ingest import connect
from tidegate.scan.result import Result
from tidegate.session.lake import Lake, at
from tidegate.shard.catalog import Connection, Item, exists
from tidegate.sql import grammar, statement
from tidegate.sql.lex import tokens
from tidegate.sql.statement import Option, Value

OPTIONS = {
    "confluent schema registry": ("url", "username", "user", "password"),
    "aws": (
        "endpoint",
        "region",
        "access key id",
        "secret access key",
        "session token",
        "virtual hosted style",
        "allow http",
    ),
}
"""What can be told of connections whose upstream does not check them itself."""
KINDS = ("kafka", "postgres", *OPTIONS)
_IN_URL = re.compile(r"(?i)([?&][a-z_]*(?:secret|password|token|key)=)[^&'\s]+")


def create_connection(lake: Lake, given: statement.CreateConnection) -> Result:
    """CREATE CONNECTION."""
    name = given.name.text
    found = lake.catalog.find(name)
    if found is not None:
        if not given.if_not_exists:
            error = exists(name, found)
            error.position = at(given.sql, given.name)
            raise error
        return Result.done(f'"{name}" already exists, and was left as it is')
    options = checked(given.options, given.sql)
    try:
        for option, value in options.items():
            lake.reach.option(option, value)
        lake.reach.connection(given.kind, options)
        _check(connect.Connection(name, given.kind, options))
    except BindError as error:
        said = [option for option in given.options if option.name.upper() in error.message]
        error.position = Position(given.sql, *said[0].at) if said else at(given.sql, given.name)
        raise
    lake.catalog.create({name: Connection(given.kind, options)}, {})
    return Result.done("CREATE CONNECTION")


def checked(options: tuple[Option, ...], sql: str) -> dict[str, Any]:
    """Options by name, as JSON has them; none twice."""
    found: dict[str, Any] = {}
    for option in options:
        if option.name in found:
            raise BindError(f"{option.name.upper()} is given twice", position=Position(sql, *option.at))
        found[option.name] = listed(option.value)
    return found


def listed(value: Value) -> Any:
    """A value as JSON has it."""
    return [listed(one) for one in value] if isinstance(value, tuple) else value


def _check(given: connect.Connection) -> None:
    """Raises unless a connection of its kind can have these options; connects to nothing."""
    for option in given.options:
        if option.endswith(" secret"):
            what = option.removesuffix(" secret").upper()
            hint = f"there are no secrets by name: {what} 'env:NAME' takes one from the environment"
            raise BindError(f"there is no option {option.upper()}", hint=hint)
    match given.kind:
        case "kafka":
            from tidegate.ingest.kafka_options import check as check_kafka

            check_kafka(given.options)
        case "postgres":
            from tidegate.ingest.postgres_connect import check as check_postgres

            check_postgres(given)
        case kind if kind in OPTIONS:
            for option in given.options:
                _check_known(option, kind)
            if kind != "aws" and not given.options.get("url"):
                raise BindError(f"a connection to {kind.upper()} needs a URL", hint="URL 'http://host:8081'")
        case kind:
            raise BindError(
                f"connections to {kind.upper()} are not supported",
                hint=f"there are {', '.join(KINDS).upper()}",
            )


def _check_known(option: str, kind: str) -> None:
    known = OPTIONS[kind]
    if option not in known:
        close = get_close_matches(option, known, n=2)
        hint = (
            f"did you mean {' or '.join(close).upper()}?" if close else f"it has {', '.join(known).upper()}"
        )
        raise BindError(f"a connection to {kind.upper()} has no option {option.upper()}", hint=hint)


def connection_of(lake: Lake, name: str, position: Position | None = None) -> connect.Connection:
    """The connection of a name, for those who connect."""
    return as_given(name, item_of(lake, name, position))


def as_given(name: str, item: Connection) -> connect.Connection:
    """A connection of the catalog, for those who connect."""
    return connect.Connection(name, item.to, dict(item.options))


def item_of(lake: Lake, name: str, position: Position | None = None) -> Connection:
    """The connection of a name, as the catalog has it."""
    item: Item | None = lake.catalog.find(name)
    if isinstance(item, Connection):
        return item
    known = [key for key, found in lake.catalog.items().items() if isinstance(found, Connection)]
    close = get_close_matches(name, known, n=2)
    raise BindError(
        f'there is no connection "{name}"' if item is None else f'"{name}" is no connection',
        hint=f"did you mean {' or '.join(close)}?"
        if close
        else "CREATE CONNECTION … TO KAFKA (…), and SHOW CONNECTIONS",
        position=position,
    )


def create_sql(name: str, item: Connection) -> str:
    """The statement that would make it, without its secrets."""
    shown = ", ".join(f"{option.upper()} {_shown(option, value)}" for option, value in item.options.items())
    return f"CREATE CONNECTION {name} TO {item.to.upper()} ({shown})"


def without_secrets(sql: str) -> str:
    """A CREATE SOURCE without the secrets of its options, nor those in a URL."""
    found = grammar.statement(sql)
    assert isinstance(found, statement.CreateSource)
    spans = []
    for option in (*found.options, *found.with_options):
        hidden = isinstance(option.value, str) and not option.value.startswith(("env:", "file:"))
        if connect.is_secret(option.name) and hidden:
            strings = [
                token for token in tokens(sql) if token.kind == "string" and token.start >= option.at.end
            ]
            spans.append((strings[0].start, strings[0].end))
    for start, end in sorted(spans, reverse=True):
        sql = f"{sql[:start]}'***'{sql[end:]}"
    return _IN_URL.sub(r"\1***", sql)


def _shown(option: str, value: Any) -> str:
    if isinstance(value, list):
        return f"({', '.join(_shown(option, one) for one in value)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, str):
        return str(value)
    reference = value.startswith(("env:", "file:"))
    text = "***" if connect.is_secret(option) and not reference else value.replace("'", "''")
    return f"'{text}'"
