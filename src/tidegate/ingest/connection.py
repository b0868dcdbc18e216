"""Connections to external systems, and the kinds of connections.

    CREATE CONNECTION k TO KAFKA (BROKER 'host:9092', SASL PASSWORD 'env:KAFKA_PASSWORD')

    k = ExternalConnection("k", "kafka", {"broker": "host:9092", "sasl password": "env:KAFKA_PASSWORD"})
    k.get("sasl password")                 the value of the environment variable, read now

A secret may be a reference, `env:NAME` or `file:PATH`. The reference is stored as written; the process that connects resolves it
when it connects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.errors import SourceError
from tidegate.ingest.options import OptionSpec

SECRET_OPTIONS = ("password", "secret", "token", "key", "sasl password", "ssl key", "secret access key")
"""Connection options that are never shown; an option whose last word is one of these is also secret."""


@dataclass(frozen=True)
class ExternalConnection:
    """A connection of the catalog, for code that connects. Its repr omits the options."""

    name: str
    kind: str
    """`kafka`, `postgres`, `confluent schema registry`, `aws`."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The options as written in CREATE CONNECTION, by name in lower case."""

    def get(self, option: str, default: Any = None) -> Any:
        """Returns the value of an option; resolves a reference to a secret."""
        value = self.options.get(option, default)
        return resolve_secret(value, option) if isinstance(value, str) else value


@dataclass(frozen=True)
class ConnectionType:
    """A kind of connection: the options of CREATE CONNECTION … TO <name>, and a check of them."""

    name: str
    """In lower case."""
    options: tuple[OptionSpec, ...]
    check: Callable[[ExternalConnection], None] = lambda _: None
    """Raises a BindError if the options contradict each other. It opens no connection and resolves no secret."""


def is_secret(option: str) -> bool:
    """Whether the value of an option is never shown."""
    return option.rpartition(" ")[2] in SECRET_OPTIONS


def is_reference(value: str) -> bool:
    """Whether a secret is a reference, which may be shown."""
    return value.startswith(("env:", "file:"))


def resolve_secret(value: str, option: str) -> str:
    """Returns the value of an option; for a secret, the value that `env:NAME` or `file:PATH` refers to."""
    if not is_secret(option) or not is_reference(value):
        return value
    kind, _, where = value.partition(":")
    if kind == "env":
        secret = os.environ.get(where)
        if secret is None:
            raise SourceError(
                f"{option.upper()} refers to the environment variable {where}, which is not set",
                again=False,
                hint="set it where Tidegate and its Spark workers run",
            )
        return secret
    try:
        return Path(where).read_text().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"{option.upper()} refers to the file {where}, which cannot be read: {error}", again=False
        ) from None
