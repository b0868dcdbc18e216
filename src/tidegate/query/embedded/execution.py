"""Runs a query of any shape on DuckDB, in this process.

    run_embedded(pinned, cancel)         a Result with path 'embedded'; its rows are read on demand

What happens to `SELECT c.name, sum(o.price) FROM orders o JOIN customers c ON o.customer = c.id WHERE c.country = 'de' GROUP BY 1`:

1. The keys of customers, of which little is left, prune the parts of orders (`query/relational/semi_join.py`).
2. Each scan becomes a table or a stream of Arrow batches that our own reader fills: pruned, filtered, without deleted and
   expired rows.
3. `plan/sql/writer.py` writes the rest as DuckDB's SQL; expressions that DuckDB cannot express exactly are calls of our
   evaluator (`evaluator.py`).
4. DuckDB's result is read batch by batch. Memory is bounded by `embedded_memory`; what is larger is spilled to disk.

A thread interrupts DuckDB when the query is cancelled or times out (`interrupt.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import pyarrow as pa

from tidegate.errors import EvaluationError, LimitError, TidegateError, UnsupportedError
from tidegate.expr.duckdb_sql import duckdb_arrow, from_duckdb, to_duckdb
from tidegate.expr.model import Column
from tidegate.expr.primitives import NUMERIC_OVERFLOW, cancellable, duckdb_kernels
from tidegate.plan import logical
from tidegate.plan.sql import SqlWriter
from tidegate.query.cancellation import CancelToken
from tidegate.query.embedded.connections import connection
from tidegate.query.embedded.dialect import DuckdbDialect
from tidegate.query.embedded.evaluator import EvaluatorCalls
from tidegate.query.embedded.interrupt import call_interruptibly, interrupting
from tidegate.query.embedded.operators import OperatorCost, operator_costs
from tidegate.query.embedded.parquet_scan import ParquetScan, plan_parquet_scan
from tidegate.query.embedded.query_progress import QueryProgress
from tidegate.query.prune import PruneResult
from tidegate.query.relational import PinnedQuery, RelationalScan, plain_arrays, total_cost
from tidegate.query.result import Result
from tidegate.query.row_stream import Batch, RowStream
from tidegate.query.scan_metrics import ScanMetrics, Stage

T = TypeVar("T")
BATCH_ROWS = 16_384
"""Rows of a batch of the result."""
READ_AHEAD = 16 << 20
"""Bytes of rows that are read before a result is returned: smaller results are complete by then."""
MAX_TABLE_BYTES = 4 << 20
"""Scans of fewer bytes are read before the query runs; larger ones are read as DuckDB asks for their rows."""
_MESSAGES = {
    "of DECIMAL": NUMERIC_OVERFLOW,
    "More than one row returned by a subquery": "a subquery that stands for one value gave more than one row",
    "Overflow in": "value out of range: overflow",
    "out of range": "value out of range: overflow",
    "Could not cast value": "value out of range: overflow",
}
"""Our messages for errors of DuckDB that are caused by rows, by a text in them: DuckDB's errors carry no code."""


def memory_limit(setting: int) -> int:
    """The bytes that a query may use; 0 stands for a quarter of the machine's."""
    return setting or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


def run_embedded(pinned: PinnedQuery, cancel: CancelToken) -> Result:
    """Runs a query; the first rows are there when it returns, the others are read on demand."""
    costs = [scan.cost for scan in pinned.scans]
    cost = total_cost(costs)
    names, types, limit = pinned.query.names, pinned.query.types, pinned.config.max_result_bytes
    stream = RowStream(_rows(pinned, cancel, cost), cancel)
    stream.fill(min(READ_AHEAD, limit) if limit else READ_AHEAD)
    return Result(names, types, stream, path="embedded", scan=cost, max_bytes=limit)


def analyze_embedded(pinned: PinnedQuery, cancel: CancelToken) -> tuple[list[OperatorCost], ScanMetrics]:
    """Runs a query, drops its rows and tells what each operator did."""
    with _execution(pinned, cancel) as execution:
        operators = execution.analyze()
    return operators, total_cost([scan.cost for scan in pinned.scans])


@contextmanager
def _execution(pinned: PinnedQuery, cancel: CancelToken) -> Iterator[Execution]:
    config = pinned.config
    with connection(
        memory_limit(config.embedded_memory), config.read_threads or os.cpu_count() or 1
    ) as duckdb:
        execution = Execution(duckdb, pinned, cancel)
        with execution.errors():
            yield execution


def _rows(pinned: PinnedQuery, cancel: CancelToken, cost: ScanMetrics) -> Iterator[Batch]:
    """The rows of the query; at the end, the costs of its scans are added up."""
    began = time.perf_counter()
    with _execution(pinned, cancel) as execution:
        for batch in execution.batches():
            cost.rows_returned += batch.num_rows
            arrays = [from_duckdb(batch.column(i), type_) for i, type_ in enumerate(pinned.query.types)]
            yield arrays, batch.num_rows
    total = total_cost([scan.cost for scan in pinned.scans])
    for name, value in vars(total).items():
        if isinstance(value, int) and name != "rows_returned":
            setattr(cost, name, value)
    spent = time.perf_counter() - began
    cost.stages.append(Stage("embedded", cost.rows_read, cost.rows_returned, cost.bytes_read, spent))


class Execution:
    """One query on one DuckDB connection."""

    def __init__(self, duckdb: Any, pinned: PinnedQuery, cancel: CancelToken) -> None:
        self.duckdb, self.pinned, self.cancel = duckdb, pinned, cancel
        self.calls = EvaluatorCalls(duckdb, pinned.now)
        self.failure: BaseException | None = None
        """What ended a scan."""
        self.progress = QueryProgress(duckdb.query_progress)
        self._views: list[str] = []
        self._tables: list[str] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the result, as DuckDB gives them."""
        with self._prepared() as text:
            reader = self._call(lambda: self.duckdb.sql(text).to_arrow_reader(BATCH_ROWS))
            try:
                while (batch := self._call(lambda: next(reader, None))) is not None:
                    self.progress.close()
                    yield batch
            finally:
                reader.close()  # DuckDB refuses other calls while a result is open

    def analyze(self) -> list[OperatorCost]:
        """Runs the query without its rows: what each operator did, the last one first."""
        with self._prepared() as text:
            explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {text}"
            ((_, profile),) = self._call(lambda: self.duckdb.sql(explained).fetchall())
        return operator_costs(profile)

    def _call(self, call: Callable[[], T]) -> T:
        return call_interruptibly(call, self.duckdb.interrupt, self.progress.update)

    @contextmanager
    def _prepared(self) -> Iterator[str]:
        """The query as DuckDB's SQL, while its sources are there."""
        self.cancel.check()
        _ = self.pinned.reduced
        with ExitStack() as stack:
            stack.callback(self._forget)
            stack.callback(self.progress.close)
            stack.enter_context(interrupting(self.duckdb, self.cancel))
            sources = self._register()
            rows = self.pinned.config.recursion_rows
            dialect = DuckdbDialect(self.calls.sql, lambda: self.calls.row_limit(rows))
            yield SqlWriter(self.pinned.query, sources, dialect).whole()

    def _register(self) -> dict[int, str]:
        """Makes a source of each scan and VALUES, by id: the name of a view, or a SELECT in parentheses."""
        sources: dict[int, str] = {}
        for i, scan in enumerate(self.pinned.scans):
            scan.count_total()
            sources[id(scan.scan)] = self._source(f"tg_scan_{i}", scan)
        for i, rel in enumerate(self.pinned.constant_rows()):
            columns = self.pinned.evaluated_rows(rel)
            table = pa.table(_converted(columns, rel.columns), [f"c{column.index}" for column in rel.columns])
            if not rel.columns:
                table = pa.table({"one": pa.repeat(pa.scalar(1, pa.int32()), len(rel.rows))})
            sources[id(rel)] = self._view(f"tg_values_{i}", table)
        return sources

    def _view(self, name: str, rows: Any) -> str:
        self.duckdb.register(name, rows)
        self._views.append(name)
        return name

    def _source(self, name: str, scan: RelationalScan) -> str:
        """The rows of a scan: a table if they are few, else files that DuckDB reads and a stream of the rest."""
        schema = _schema(scan)
        if scan.is_read or scan.planned.bytes <= MAX_TABLE_BYTES:
            table = scan.table()
            scan.audit()
            if not scan.columns:
                return self._view(name, table)
            chunks = [
                pa.RecordBatch.from_arrays(_converted(batch.columns, scan.columns), schema=schema)
                for batch in table.to_batches()
            ]
            return self._view(name, pa.Table.from_batches(chunks, schema))
        direct = plan_parquet_scan(scan)
        parts = scan.planned.pruned if direct is None else direct.rest
        texts = [] if direct is None else [self._parquet(name, direct)]
        if parts.left or not texts:
            texts.append(f"SELECT * FROM {self._streamed(name, scan, parts, schema)}")
        return f"({' UNION ALL '.join(texts)})"

    def _streamed(self, name: str, scan: RelationalScan, parts: PruneResult, schema: pa.Schema) -> str:
        """Rows that our own scan reads: as DuckDB asks for them, or before, so that it knows their number.

        DuckDB takes a stream for one row when it orders joins.
        """
        rows = pa.RecordBatchReader.from_batches(schema, self._stream(scan, parts, schema))
        source = self._view(name, rows)
        if len(self.pinned.scans) == 1 and not logical.scans_in_steps(self.pinned.query.rel):
            return source
        create = f"CREATE TEMP TABLE {name}_rows AS SELECT * FROM {source}"
        self._call(lambda: self.duckdb.execute(create))
        self._tables.append(f"{name}_rows")
        return f"{name}_rows"

    def _parquet(self, name: str, direct: ParquetScan) -> str:
        bits = direct.deleted_bits()
        direct.verify()
        if not direct.rest.left:
            direct.scan.audit()
        return direct.sql(None if bits is None else self._view(f"{name}_deleted", bits))

    def _stream(
        self, scan: RelationalScan, parts: PruneResult, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a scan, in a thread of DuckDB; an error is kept, as DuckDB passes on its text alone."""
        try:
            rows = scan.batches(parts)
            while True:
                with cancellable(self.cancel.check):  # for one batch: the next may be read in another thread
                    self.cancel.check()
                    batch = next(rows, None)
                if batch is None:
                    scan.audit()
                    return
                columns, count = batch
                if scan.columns:
                    yield pa.RecordBatch.from_arrays(_converted(columns, scan.columns), schema=schema)
                else:
                    yield pa.record_batch({"one": pa.repeat(pa.scalar(1, pa.int32()), count)})
        except GeneratorExit:
            raise
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def _forget(self) -> None:
        """Removes the views, tables and functions of the query."""
        for table in self._tables:
            self.duckdb.execute(f"DROP TABLE {table}")
        for view in self._views:
            self.duckdb.unregister(view)
        self.calls.remove()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises our errors in place of DuckDB's."""
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as error:
            self.cancel.check()
            ours = self.calls.failure or self.failure
            if ours is not None and ours is not error:
                raise ours from None
            if isinstance(error, duckdb_kernels.duckdb_error() | pa.ArrowException) and not isinstance(
                error, TidegateError
            ):
                raise translated(error) from error
            raise


def translated(error: Exception) -> Exception:
    """An error of DuckDB as one of ours."""
    text = str(error)
    for part, message in _MESSAGES.items():
        if part in text:
            return EvaluationError(message)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if "Out of Memory" in text or "could not allocate" in text:
        return LimitError(
            "the query needs more memory than embedded_memory, also with what was written to disk",
            hint="SET embedded_memory to a larger value, TMPDIR to a folder with more room, or engine to spark",
        )
    return UnsupportedError(f"the embedded engine cannot run this query: {first}", hint="SET engine = spark")


def _schema(scan: RelationalScan) -> pa.Schema:
    """The columns of a scan as DuckDB takes them; one of numbers, for the count of rows, if it has none."""
    if not scan.columns:
        return pa.schema([pa.field("one", pa.int32())])
    return pa.schema([
        pa.field(name, duckdb_arrow(column.type)) for name, column in zip(scan.names, scan.columns, strict=True)
    ])  # fmt: skip


def _converted(columns: Sequence[Any], types: Sequence[Column]) -> list[pa.Array]:
    return [
        to_duckdb(array, column.type)
        for array, column in zip(plain_arrays(columns, types), types, strict=True)
    ]
