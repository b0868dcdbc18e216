"""From the words of CREATE SOURCE to an upstream, and back: each kind of upstream is made here, and nowhere else.

    CREATE CONNECTION k TO KAFKA (BROKER 'host:9092', SASL PASSWORD 'env:KAFKA_PASSWORD')
    CREATE SOURCE s FROM KAFKA CONNECTION k (TOPIC 'orders') …

    k = Connection("k", "kafka", {"broker": "host:9092", "sasl password": "env:KAFKA_PASSWORD"})
    upstream = made("kafka", Given("s", {"topic": "orders"}, connection=k))      a Kafka
    upstream.to_json()                                                           {"connection": "k", "topic": "orders", …}
    again("kafka", {"connection": "k", …}, k)                                    the same Kafka

What the catalog keeps of an upstream names its connection and holds nothing of it. A secret may be a reference, `env:NAME` or
`file:PATH`, which is followed by whoever uses it, when it is used; it is never stored in any other form than it was given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from tidegate.errors import BindError, SourceError
from tidegate.ingest.source import Format, Upstream

SECRETS = ("password", "secret", "token", "key", "sasl password", "ssl key", "secret access key")
"""Options of connections that nobody is shown, beside those whose name ends with one of these words."""


@dataclass(frozen=True)
class Connection:
    """CREATE CONNECTION: how something outside is reached. Can be pickled; it is printed without its options."""

    name: str
    kind: str
    """`kafka`, `postgres`, `confluent schema registry`, `aws`, `ssh tunnel`."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """As they were written, by their names in lower case."""

    def get(self, option: str, default: Any = None) -> Any:
        """An option; references to secrets are followed now."""
        found = self.options.get(option, default)
        return resolved(found, option) if isinstance(found, str) else found


def is_secret(option: str) -> bool:
    """Whether an option is not shown."""
    return option.rpartition(" ")[2] in SECRETS


def resolved(value: str, option: str) -> str:
    """A value, or what `env:NAME` and `file:PATH` refer to."""
    kind, _, where = value.partition(":")
    if not is_secret(option) or kind not in ("env", "file"):
        return value
    if kind == "env":
        found = os.environ.get(where)
        if found is None:
            raise SourceError(
                f"{option.upper()} is in the environment variable {where}, which is not set here",
                again=False,
                hint="set it where Tidegate and its Spark workers run",
            )
        return found
    try:
        return Path(where).read_text().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"{option.upper()} is in the file {where}, which cannot be read: {error}", again=False
        ) from None


@dataclass(frozen=True)
class Given:
    """What CREATE SOURCE says of its upstream."""

    source: str
    """The source's name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """In parentheses behind FROM …, by their names in lower case."""
    of: str | None = None
    """GENERATOR: which. FILES: the pattern."""
    connection: Connection | None = None
    tables: tuple[str, ...] | None = None
    """FOR TABLES: the tables that are wanted, as they are written (`orders`, `shop.orders`); None: all, or it has none."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """WITH (…): what is not known to every source. An upstream refuses what it does not know either."""


class Kind(Protocol):
    """What the class of an upstream offers beside `Upstream`."""

    def create(self, given: Given) -> Upstream:
        """The upstream that a statement asks for; a BindError that names an option that is unknown, missing or wrong."""
        ...

    def from_json(self, kept: Mapping[str, Any], connection: Connection | None) -> Upstream:
        """What `to_json` gave, and the connection that it names."""
        ...


_ROOMS = {
    "files": ("tidegate.ingest.files", "Files"),
    "generator": ("tidegate.ingest.generator", "Generator"),
    "kafka": ("tidegate.ingest.kafka", "Kafka"),
    "postgres": ("tidegate.ingest.postgres", "Postgres"),
}


def _kind(kind: str) -> Kind:
    room, name = _ROOMS[kind]
    found: Kind = getattr(import_module(room), name)  # what it needs is imported by those who use it
    return found


def made(kind: str, given: Given) -> Upstream:
    """The upstream of a source that is being created."""
    if given.connection is not None and given.connection.kind != ("aws" if kind == "files" else kind):
        raise BindError(
            f'connection "{given.connection.name}" is to {given.connection.kind.upper()}, not to {kind.upper()}',
            hint=f"CREATE CONNECTION … TO {kind.upper()} (…)",
        )
    return _kind(kind).create(given)


def again(kind: str, kept: Mapping[str, Any], connection: Connection | None) -> Upstream:
    """The upstream of a source that is in the catalog."""
    return _kind(kind).from_json(kept, connection)


def format_again(kind: str, kept: Mapping[str, Any]) -> Format:
    """The format of a table of an upstream that knows its columns."""
    found: Format = import_module(_ROOMS[kind][0]).format_from_json(kept)
    return found
