"""A source while it is being created: the statement, and everything that was looked up for it.

A draft is frozen. `draft_source` builds it from a statement in one pass; ALTER SOURCE builds it from a source of the catalog. It
lists the connections that it uses (`connections`): they must be unchanged when the source is added to the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.context import Context, position_of
from tidegate.errors import BindError, Position
from tidegate.expr.model import Type
from tidegate.ingest.define import connection as connections
from tidegate.ingest.define.options import WithOptions, check_values_given
from tidegate.ingest.definition import RETRACTING_ENVELOPES, Envelope, retracts
from tidegate.ingest.formats.registry import FORMAT_OPTIONS
from tidegate.ingest.protocol import IncludedColumn, RecordFormat, Upstream
from tidegate.ingest.upstreams.registry import UpstreamType, upstream_names
from tidegate.sql.parse import statement, syntax
from tidegate.storage.catalog import ConnectionItem

Included = tuple[tuple[IncludedColumn, Type], ...]
"""The columns of INCLUDE, and their types."""


@dataclass(frozen=True)
class SourceDraft:
    """A source while it is being created."""

    context: Context
    statement: statement.CreateSource
    options: WithOptions
    type: UpstreamType
    upstream: Upstream
    format: RecordFormat | None = None
    """The format of FORMAT; None: the tables of the upstream have formats."""
    key_format: RecordFormat | None = None
    included: Included = ()
    connections: Mapping[str, ConnectionItem] = field(default_factory=dict)
    """The connections that it uses, by name."""

    @property
    def name(self) -> str:
        """The source's name."""
        return self.statement.name.text

    @property
    def envelope(self) -> Envelope:
        """The envelope; NONE by default."""
        return self.statement.envelope or "none"

    @property
    def retracts(self) -> bool:
        """Whether the source may retract rows."""
        return retracts(self.upstream, self.envelope)

    def position(self, span: syntax.Span) -> Position:
        """Returns a position in the statement."""
        return Position(self.statement.sql, *span)


def named_connections(
    context: Context, created: statement.CreateSource, type_: UpstreamType
) -> dict[str, ConnectionItem]:
    """Returns the connections that a statement names; raises a BindError if one does not exist."""
    items: dict[str, ConnectionItem] = {}
    if created.connection is not None:
        ident = created.connection
        items[ident.text] = connections.connection_item(context, ident.text, position_of(created.sql, ident))
    options = [option for option in created.options if option.name == type_.connection_option]
    formats = [format_ for format_ in (created.format, created.key_format) if format_ is not None]
    for format_ in formats:
        check_values_given(format_.options, FORMAT_OPTIONS[format_.kind])
    options += [option for format_ in formats for option in format_.options if option.name == "registry"]
    for option in options:
        position = Position(created.sql, *option.at)
        items[str(option.value)] = connections.connection_item(context, str(option.value), position)
    return items


def check_envelope(created: statement.CreateSource, type_: UpstreamType) -> None:
    """Refuses envelopes and keys that the upstream's records cannot have."""
    envelope, kind = created.envelope or "none", created.kind.upper()
    if envelope not in type_.envelopes:
        names = upstream_names(lambda other: envelope in other.envelopes)
        raise BindError(
            f"ENVELOPE {envelope.upper()} is not for records of {kind}", hint=f"it is for {names}"
        )
    if envelope == "debezium" and created.format is not None and created.format.kind not in ("json", "avro"):
        position = Position(created.sql, *created.format.at)
        raise BindError("ENVELOPE DEBEZIUM needs FORMAT JSON or FORMAT AVRO", position=position)
    if created.key_format is not None and not type_.has_keys:
        raise BindError(f"records of {kind} have no keys", hint="write FORMAT … alone")
    if created.before is not None and envelope not in RETRACTING_ENVELOPES:
        raise BindError(
            "TRANSFORM BEFORE ENVELOPE needs an envelope",
            hint="write TRANSFORM USING, or ENVELOPE UPSERT or DEBEZIUM",
            position=Position(created.sql, *created.before.at),
        )
