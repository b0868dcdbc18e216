"""Chooses the step of an envelope, and the columns that a transform after it reads."""

from __future__ import annotations

from tidegate.ingest.definition import Envelope, SourceDefinition, SourceOutput
from tidegate.ingest.envelopes.append import AppendStep
from tidegate.ingest.envelopes.debezium import DebeziumStep, row_columns
from tidegate.ingest.envelopes.output import EnvelopeStep, StoredRowLookup
from tidegate.ingest.envelopes.upsert import UpsertStep
from tidegate.ingest.protocol import Columns, RecordFormat


def envelope_step(
    source: SourceDefinition, output: SourceOutput, now: int, stored: StoredRowLookup | None
) -> EnvelopeStep:
    """Creates the step of an output for one split; `now` is the batch's time in ms."""
    match source.envelope:
        case "upsert":
            assert stored is not None
            return UpsertStep(source, output, now, stored)
        case "debezium":
            return DebeziumStep(source, output, now)
        case "none":
            return AppendStep(source, output, now)


def envelope_columns(envelope: Envelope, format_: RecordFormat) -> Columns:
    """The columns that a transform after an envelope reads, without those of INCLUDE."""
    return row_columns(format_.columns) if envelope == "debezium" else format_.columns
