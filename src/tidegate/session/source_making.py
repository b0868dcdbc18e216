"""A source on its way into the catalog: the statement, and what was looked up for it.

What it uses is remembered (`needs`), and must still be there, unchanged, when it is entered: no connection is dropped between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.errors import BindError, Position
from tidegate.ingest.connect import Connection
from tidegate.session import connection as connections
from tidegate.session.lake import Lake
from tidegate.session.source_options import Asked
from tidegate.shard.catalog import Item
from tidegate.sql import statement, syntax

RETRACTING = ("upsert", "debezium")
"""Envelopes that take rows away again."""


@dataclass
class Making:
    """A source on its way into the catalog."""

    lake: Lake
    given: statement.CreateSource
    asked: Asked
    needs: dict[str, Item] = field(default_factory=dict)
    """The connections that it uses."""
    view: str | None = None
    """WITH (SPLIT): the query over what is stored that the source's name stands for."""

    @property
    def name(self) -> str:
        """The source's name."""
        return self.given.name.text

    append_only: bool = False
    """The upstream promises never to take rows away, though others of its kind do."""

    @property
    def retracts(self) -> bool:
        """Whether rows are taken away again."""
        return (self.given.kind == "postgres" and not self.append_only) or self.given.envelope in RETRACTING

    @property
    def changes(self) -> bool:
        """Whether a record can take away the row of another one, which it must then know to the byte; UPSERT looks it up."""
        return self.retracts and self.given.envelope != "upsert"

    def connection(self, name: str, position: Position | None = None) -> Connection:
        """A connection by name, which must be there when the source is entered."""
        item = connections.item_of(self.lake, name, position)
        self.needs[name] = item
        return connections.as_given(name, item)

    def position(self, span: syntax.Span) -> Position:
        """A place in the statement."""
        return Position(self.given.sql, *span)


def check_envelope(making: Making) -> None:
    """Refuses envelopes that the upstream's records cannot have."""
    given = making.given
    what, kind = given.envelope, given.kind.upper()
    if what == "upsert" and given.kind != "kafka":
        raise BindError(f"ENVELOPE UPSERT needs records with keys, and {kind} has none", hint="KAFKA has")
    if what == "debezium" and given.kind not in ("kafka", "files"):
        raise BindError(f"ENVELOPE DEBEZIUM is for records of KAFKA or FILES, not of {kind}")
    if what == "debezium" and given.format is not None and given.format.kind not in ("json", "avro"):
        position = making.position(given.format.at)
        raise BindError("ENVELOPE DEBEZIUM needs FORMAT JSON or FORMAT AVRO", position=position)
    if given.key_format is not None and given.kind != "kafka":
        raise BindError(f"records of {kind} have no keys", hint="write FORMAT … alone")
    if given.before is not None and what not in RETRACTING:
        raise BindError(
            "there is no envelope that TRANSFORM BEFORE ENVELOPE could stand before",
            hint="write TRANSFORM USING, or ENVELOPE UPSERT or DEBEZIUM",
            position=making.position(given.before.at),
        )
