"""The kinds of upstreams and connections, and how a source gets its upstream.

    CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 'orders') …

    upstream = create_upstream("kafka", UpstreamSpec("s", {"topic": "orders"}, connection=k))     a KafkaUpstream
    upstream.to_json()                                             {"connection": "k", "topic": "orders", …}, for the catalog
    load_upstream("kafka", {"connection": "k", …}, k)              the same KafkaUpstream

A new kind of upstream is a folder with an `Upstream` and an `UpstreamType`, and one line in `upstreams/__init__.py` that registers
the latter. Libraries that a kind needs (confluent_kafka, psycopg, obstore) are imported when they are first used. The catalog
stores the name of a connection, never its options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.access import Reach
from tidegate.errors import BindError, ErrorCode, Position
from tidegate.ingest.connection import ConnectionType, ExternalConnection
from tidegate.ingest.definition import Envelope
from tidegate.ingest.options import OptionSpec, check_options
from tidegate.ingest.protocol import RecordFormat, Upstream


@dataclass(frozen=True)
class UpstreamSpec:
    """The part of CREATE SOURCE that is about its upstream."""

    source: str
    """The source's name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options in parentheses behind FROM …, by name in lower case. `create_upstream` checks them and adds defaults."""
    target: str | None = None
    """What follows the kind: the pattern of FILES, the name of a GENERATOR."""
    connection: ExternalConnection | None = None
    tables: tuple[str, ...] | None = None
    """FOR TABLES: the tables as written in the statement (`orders`, `shop.orders`); None: all, or the upstream has none."""
    with_options: Mapping[str, Any] = field(default_factory=dict)
    """The options of WITH (…), except those that every source has. `create_upstream` checks them and adds defaults."""


@dataclass(frozen=True)
class UpstreamType:
    """A kind of upstream: the options of FROM <name>, and how it is created and loaded."""

    name: str
    """The kind's name in lower case; the catalog stores it."""
    create: Callable[[UpstreamSpec], Upstream]
    """Creates the upstream from checked options. Raises a BindError if the source is not possible."""
    from_json: Callable[[Mapping[str, Any], ExternalConnection | None], Upstream]
    """Loads the result of `Upstream.to_json`, with the connection that it names."""
    options: tuple[OptionSpec, ...] = ()
    with_options: tuple[OptionSpec, ...] = ()
    connection: str | None = None
    """The kind of connection in `FROM <name> CONNECTION c`; None: that syntax is not allowed."""
    connection_option: str | None = None
    """An option that names a connection, as `(AWS CONNECTION c)`; its first word is the kind of the connection."""
    envelopes: tuple[Envelope, ...] = ("none",)
    has_keys: bool = False
    """Whether records have keys, so that KEY FORMAT is allowed."""
    implicit_table: bool = True
    """Whether FOR TABLES may be omitted if there is only one table."""
    table_format: Callable[[Mapping[str, Any]], RecordFormat] | None = None
    """Loads the format of one of its tables from JSON; None: it has no tables, and FORMAT is required."""
    allows_other_options: Callable[[UpstreamSpec], bool] = lambda _: False
    """Whether undeclared options are passed on (FILES of a bucket passes them to obstore)."""
    check_access: Callable[[UpstreamSpec, Reach], None] = lambda _spec, _reach: None
    """Raises a BindError if the session is not allowed to access what the source names."""


_UPSTREAMS: dict[str, UpstreamType] = {}
_CONNECTIONS: dict[str, ConnectionType] = {}


def register_upstream(type_: UpstreamType) -> None:
    """Registers a kind of upstream for `FROM <name>`; replaces a kind of the same name."""
    _UPSTREAMS[type_.name] = type_


def register_connection(type_: ConnectionType) -> None:
    """Registers a kind of connection for `CREATE CONNECTION … TO <name>`; replaces one of the same name."""
    _CONNECTIONS[type_.name] = type_


def upstream_type(kind: str, position: Position | None = None) -> UpstreamType:
    """The kind of upstream of a name; raises a BindError at `position` if there is none."""
    type_ = _UPSTREAMS.get(kind)
    if type_ is None:
        names = ", ".join(sorted(_UPSTREAMS)).upper()
        raise BindError(
            f"there is no upstream {kind.upper()}",
            code=ErrorCode.UNDEFINED_OBJECT,
            subject=kind,
            hint=f"there are {names}",
            position=position,
        )
    return type_


def upstream_names(has: Callable[[UpstreamType], bool]) -> str:
    """The names of the kinds that satisfy a condition, for a message."""
    return ", ".join(type_.name for type_ in _UPSTREAMS.values() if has(type_)).upper()


def connection_type(kind: str, position: Position | None = None) -> ConnectionType:
    """The kind of connection of a name; raises a BindError at `position` if there is none."""
    type_ = _CONNECTIONS.get(kind)
    if type_ is None:
        raise BindError(
            f"connections to {kind.upper()} are not supported",
            code=ErrorCode.UNDEFINED_OBJECT,
            subject=kind,
            hint=f"there are {', '.join(_CONNECTIONS).upper()}",
            position=position,
        )
    return type_


def check_connection(connection: ExternalConnection) -> None:
    """Raises a BindError unless the options fit the kind of connection; does not connect."""
    type_ = connection_type(connection.kind)
    check_options(f"a connection TO {type_.name.upper()}", type_.options, connection.options)
    type_.check(connection)


def create_upstream(kind: str, spec: UpstreamSpec) -> Upstream:
    """Creates the upstream of a new source, after checking its options."""
    type_ = upstream_type(kind)
    if spec.connection is not None:
        expected = type_.connection or (type_.connection_option or "").partition(" ")[0]
        if not expected:
            raise BindError(f"FROM {kind.upper()} takes no CONNECTION")
        if spec.connection.kind != expected:
            raise BindError(
                f'connection "{spec.connection.name}" is to {spec.connection.kind.upper()}, not to {expected.upper()}',
                hint=f"CREATE CONNECTION … TO {expected.upper()} (…)",
            )
        check_connection(spec.connection)
    owner = f"FROM {kind.upper()}"
    strict = not type_.allows_other_options(spec)
    return type_.create(
        replace(
            spec,
            options=check_options(owner, type_.options, spec.options, strict=strict),
            with_options=check_options(owner, type_.with_options, spec.with_options),
        )
    )


def load_upstream(kind: str, stored: Mapping[str, Any], connection: ExternalConnection | None) -> Upstream:
    """Loads the upstream of a source from its form in the catalog."""
    return upstream_type(kind).from_json(stored, connection)


def load_table_format(kind: str, stored: Mapping[str, Any]) -> RecordFormat:
    """Loads the format of a table, for kinds of upstream that have tables."""
    table_format = upstream_type(kind).table_format
    if table_format is None:
        raise BindError(f"{kind.upper()} has no tables")
    return table_format(stored)
