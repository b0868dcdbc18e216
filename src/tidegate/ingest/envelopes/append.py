"""ENVELOPE NONE: each record is a row, or with a diff of -1 the retraction of one.

    SELECT data->>'id' FROM s WHERE mz_now() <= (data->>'at')::timestamptz + '30 days'

    plan.take → decode    `id` and `at` of each record                       in the upstream's loop
    left                  the row and its two bounds                         here
    upper bound ≤ now     dropped, and counted as expired                    here: expired rows are never stored

A record that fails is in `failures`, and gives no row. A retraction that fails is skipped: the row that it retracts also failed
when it was appended, so it is not stored, and its record is already among the errors.
"""

from __future__ import annotations

import numpy as np

from tidegate.ingest.definition import SourceDefinition, SourceOutput
from tidegate.ingest.envelopes.inputs import ChunkInputs, bad_records, reportable, take_rows, unexpired
from tidegate.ingest.envelopes.output import EnvelopeOutput, RecordCounts, empty_output, failed_records
from tidegate.ingest.protocol import RecordChunk
from tidegate.plan.run import SafePlan


class AppendStep:
    """ENVELOPE NONE for one split."""

    def __init__(self, source: SourceDefinition, output: SourceOutput, now: int) -> None:
        self._output, self._now = output, now
        self._inputs = ChunkInputs(source, now)
        plan = output.plan if output.before is None else output.before.then(output.plan)
        self.decode, left = output.format.take(plan)
        self._left = SafePlan(left)

    def chunk(self, chunk: RecordChunk) -> EnvelopeOutput:
        """Returns the rows of a chunk."""
        inputs = self._inputs.of(chunk)
        rows = self._left.evaluate(inputs.columns, len(inputs))
        records, columns = inputs.records[rows.selection], rows.columns
        bad = reportable([*inputs.bad, *bad_records(rows, inputs.records)], chunk.diffs)
        passed = len(records)
        alive = unexpired(self._output, columns, self._now)
        if alive is not None and not alive.all():
            left = np.flatnonzero(alive)
            records, columns = records[left], take_rows(columns, left)
        count, kept, expired = chunk.decoded.count, len(records), passed - len(records)
        filtered = count - kept - expired - len(bad)
        counts = RecordCounts(count, chunk.decoded.size, kept, filtered, expired, len(bad))
        diffs = None if chunk.diffs is None else chunk.diffs[records]
        return EnvelopeOutput(columns, diffs, failed_records(chunk, bad), counts)

    def finish(self) -> EnvelopeOutput:
        """Returns no rows: `chunk` returns all of them."""
        return empty_output(type_.arrow for type_ in self._output.plan.types)
