"""CREATE CONNECTION, and the connections of the catalog.

    CREATE CONNECTION k TO KAFKA (BROKER 'host:9092')
    CREATE CONNECTION pg TO POSTGRES (HOST 'db', DATABASE 'shop', USER 'etl', PASSWORD 'env:PGPASSWORD')

Options are stored as written: a secret that refers to the environment or to a file stays a reference, which the process that
connects resolves. A literal secret is stored, and never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from tidegate.context import Context, position_of
from tidegate.errors import BindError, ErrorCode, Position
from tidegate.ingest.connection import ExternalConnection, is_reference, is_secret
from tidegate.ingest.define.options import check_values_given, options_by_name, set_position
from tidegate.ingest.options import option_error
from tidegate.ingest.upstreams.registry import check_connection, connection_type
from tidegate.query import Result
from tidegate.sql.parse import parse_statement, statement, tokenize
from tidegate.storage.catalog import CatalogItem, ConnectionItem, already_exists
from tidegate.text import literal

_SECRET_IN_URL = re.compile(r"(?i)([?&][a-z_]*(?:secret|password|token|key)=)[^&'\s]+")


def create_connection(context: Context, created: statement.CreateConnection) -> Result:
    """Executes CREATE CONNECTION."""
    name = created.name.text
    existing = context.catalog.find(name)
    if existing is not None:
        if not created.if_not_exists:
            error = already_exists(name, existing)
            error.position = position_of(created.sql, created.name)
            raise error
        return Result.message(f'"{name}" already exists, and was left as it is')
    options = options_by_name(created.options, created.sql)
    try:
        type_ = connection_type(created.kind, Position(created.sql, *created.kind_at))
        check_values_given(created.options, type_.options)
        check_option_access(context, options)
        context.access.connection(created.kind, options)
        _check_secrets(options)
        check_connection(ExternalConnection(name, created.kind, options))
    except BindError as error:
        set_position(error, created.sql, created.options, position_of(created.sql, created.name))
        raise
    context.catalog.create({name: ConnectionItem(created.kind, options)}, {})
    return Result.message("CREATE CONNECTION")


def check_option_access(context: Context, options: Mapping[str, Any]) -> None:
    """Refuses options that would make a server read its own files or variables for a client."""
    for name, value in options.items():
        try:
            context.access.option(name, value)
        except BindError as error:
            error.code, error.subject = ErrorCode.INVALID_OPTION, name
            raise


def _check_secrets(options: Mapping[str, Any]) -> None:
    """Refuses named secrets, which Materialize has and Tidegate does not."""
    for option in options:
        if option.endswith(" secret"):
            what = option.removesuffix(" secret").upper()
            hint = f"there are no secrets by name: {what} 'env:NAME' takes one from the environment"
            raise option_error(f"there is no option {option.upper()}", option, hint=hint)


def load_connection(context: Context, name: str, position: Position | None = None) -> ExternalConnection:
    """Loads the connection with a name, for code that connects."""
    return external_connection(name, connection_item(context, name, position))


def external_connection(name: str, item: ConnectionItem) -> ExternalConnection:
    """Converts a connection of the catalog, for code that connects."""
    return ExternalConnection(name, item.to, dict(item.options))


def connection_item(context: Context, name: str, position: Position | None = None) -> ConnectionItem:
    """Returns the catalog item of a connection; raises a BindError if there is none."""
    item: CatalogItem | None = context.catalog.find(name)
    if isinstance(item, ConnectionItem):
        return item
    names = [key for key, other in context.catalog.items().items() if isinstance(other, ConnectionItem)]
    close = get_close_matches(name, names, n=2)
    raise BindError(
        f'there is no connection "{name}"' if item is None else f'"{name}" is not a connection',
        hint=f"did you mean {' or '.join(close)}?"
        if close
        else "CREATE CONNECTION … TO KAFKA (…), and SHOW CONNECTIONS",
        position=position,
    )


def connection_sql(name: str, item: ConnectionItem) -> str:
    """The statement that would create a connection, without its secrets."""
    shown = ", ".join(
        f"{option.upper()} {_option_text(option, value)}" for option, value in item.options.items()
    )
    return f"CREATE CONNECTION {name} TO {item.to.upper()} ({shown})"


def redact_source_sql(sql: str) -> str:
    """Replaces the secrets in the options and URLs of a CREATE SOURCE statement."""
    created = parse_statement(sql)
    assert isinstance(created, statement.CreateSource)
    spans = []
    for option in (*created.options, *created.with_options):
        hidden = isinstance(option.value, str) and not is_reference(option.value)
        if is_secret(option.name) and hidden:
            strings = [
                token for token in tokenize(sql) if token.kind == "string" and token.start >= option.at.end
            ]
            spans.append((strings[0].start, strings[0].end))
    for start, end in sorted(spans, reverse=True):
        sql = f"{sql[:start]}'***'{sql[end:]}"
    return _SECRET_IN_URL.sub(r"\1***", sql)


def _option_text(option: str, value: Any) -> str:
    if isinstance(value, list):
        return f"({', '.join(_option_text(option, item) for item in value)})"
    hidden = isinstance(value, str) and is_secret(option) and not is_reference(value)
    return literal("***" if hidden else value)
