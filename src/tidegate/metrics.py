"""Metrics for Prometheus: what an open database has done, as counts and bytes.

    db.metrics()                       the text that Prometheus scrapes
    tidegate_parts_total{what="pruned"} 9
    tidegate_bytes_total{what="pruned"} 28440
    tidegate_queries_total{path="local",outcome="ok"} 1

| metric | labels | counts |
|---|---|---|
| `tidegate_statements_total` | kind, outcome | statements: `select`, `insert`, …; `ok`, or the class of the error |
| `tidegate_queries_total` | path, outcome | queries by how they were answered; path `none` where none was |
| `tidegate_query_seconds` | path | how long queries took, a histogram |
| `tidegate_parts_total`, `tidegate_bytes_total` | what | of queries: `considered` `pruned` `proven` `read` `audited` |
| `tidegate_pages_skipped_total`, `tidegate_bytes_skipped_total` | | what late materialisation did not read inside of these parts |
| `tidegate_rows_total` | what | `read` `returned` `appended` `deleted`; `settled`: retracted by rows, deleted by position since |
| `tidegate_appends_total`, `tidegate_appended_parts_total`, `tidegate_appended_bytes_total` | | batches that were committed |
| `tidegate_ingest_batches_total`, `tidegate_ingest_bytes_total` | | of sources: batches that were committed, bytes that came in |
| `tidegate_ingest_records_total` | what | of sources, for each collection: `kept` `filtered` `expired` `bad` |
| `tidegate_maintenance_steps_total` | step | steps that writers took after their commits: `merge`, `delete` |
| `tidegate_audit_failures_total` | | pruned parts that held something after all |
| `tidegate_join_reductions_total`, `tidegate_join_reduction_parts_total` | | scans narrowed by keys of another; parts pruned |
| `tidegate_translation_failures_total`, `tidegate_prune_failures_total` | | on Spark: our failures with a filter |
| `tidegate_statistics_unreadable_total` | why | statistics that could not be read, in this process |
| `tidegate_statistics_trimmed_total` | what | `parts` trimmed to `stats_budget`, and the `bytes` that went |
| `tidegate_…` | | gauges that others watch: `peeks_running`, `peeks_waiting` |

Counting is adding to plain numbers under a lock, so that it costs nothing worth measuring. `prometheus_client`, which takes a tenth
of a second to import, is asked only when somebody wants the text: each database has a `CollectorRegistry` of its own, whose one
collector reads the numbers. Nothing here holds a row, a constant or a name that a user gave.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate import fork

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds."""
HELP = {
    "statements": "Statements, by kind and outcome.",
    "queries": "Queries, by how they were answered and how they ended.",
    "parts": "Parts that queries considered, pruned, proved whole, read, audited.",
    "bytes": "The bytes of these parts.",
    "pages_skipped": "Pages inside of parts read that late materialisation did not read.",
    "bytes_skipped": "The bytes of these pages.",
    "rows": "Rows read, returned, appended, deleted and settled.",
    "appends": "Batches appended.",
    "appended_parts": "Parts of these batches.",
    "appended_bytes": "Bytes of these parts.",
    "ingest_batches": "Batches of sources that were committed.",
    "ingest_records": "Records of sources, by what became of them in each collection.",
    "ingest_bytes": "Bytes of these records before they were decoded.",
    "maintenance_steps": "Steps of maintenance that writers took after their commits, by step.",
    "audit_failures": "Pruned parts that held something after all.",
    "translation_failures": "Filters of Spark that our translation failed on; nothing was pruned by them.",
    "join_reductions": "Scans that were narrowed by the keys of another side of a join.",
    "join_reduction_parts": "Parts that these pruned.",
    "prune_failures": "Failures of our interpreter on filters of Spark; all parts were read.",
}
"""The counters, and what each says."""

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """The numbers of one open database. Threads may share it."""

    def __init__(self) -> None:
        self._lock = fork.lock()
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._seconds: dict[str, tuple[list[int], list[float]]] = {}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._others: dict[str, tuple[str, str, Callable[[], Mapping[str, float]]]] = {}

    def add(self, counter: str, many: int = 1, **labels: str) -> None:
        """Counts; the counter is one of `HELP`."""
        assert counter in HELP
        with self._lock:
            self._counts[counter, tuple(sorted(labels.items()))] += many

    def add_all(self, counts: Iterable[tuple[str, int, Mapping[str, str]]]) -> None:
        """Counts several counters at once: each with an amount and labels."""
        with self._lock:
            for counter, amount, labels in counts:
                assert counter in HELP
                self._counts[counter, tuple(sorted(labels.items()))] += amount

    def took(self, path: str, seconds: float) -> None:
        """A query by this path took so long."""
        with self._lock:
            counts, total = self._seconds.setdefault(path, ([0] * (len(BUCKETS) + 1), [0.0]))
            counts[bisect_left(BUCKETS, seconds)] += 1
            total[0] += seconds

    def gauge(self, name: str, meaning: str, read: Callable[[], float]) -> None:
        """A number that goes up and down, and is asked for when the text is made."""
        self._gauges[name] = meaning, read

    def other(self, name: str, meaning: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Counts that somebody else keeps, by one label."""
        self._others[name] = meaning, label, read

    def value(self, counter: str, **labels: str) -> int:
        """A count as it stands."""
        return self._counts[counter, tuple(sorted(labels.items()))]

    @cached_property
    def registry(self) -> CollectorRegistry:
        """The registry for `prometheus_client`."""
        from prometheus_client import CollectorRegistry

        made = CollectorRegistry(auto_describe=False)
        made.register(self)
        return made

    def text(self) -> str:
        """In the text format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry).decode()

    def collect(self) -> Iterator[Any]:
        """The families of metrics, as `prometheus_client` wants them from a collector."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            counts = dict(self._counts)
        for name, meaning in HELP.items():
            found = {labels: value for (counter, labels), value in counts.items() if counter == name}
            labels = [key for key, _ in next(iter(found), ())]
            family = CounterMetricFamily(f"tidegate_{name}", meaning, labels=labels)
            for given, value in sorted(found.items()) or ([] if name in _LABELLED else [((), 0)]):
                family.add_metric([value for _, value in given], value)
            yield family
        yield self._durations()
        for name, (meaning, read) in self._gauges.items():
            yield GaugeMetricFamily(f"tidegate_{name}", meaning, value=read())
        for name, (meaning, label, ask) in self._others.items():
            family = CounterMetricFamily(f"tidegate_{name}", meaning, labels=[label])
            for key, many in sorted(ask().items()):
                family.add_metric([key], many)
            yield family

    def _durations(self) -> Any:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily("tidegate_query_seconds", "How long queries took.", labels=["path"])
        with self._lock:
            seconds = {path: (list(counts), total[0]) for path, (counts, total) in self._seconds.items()}
        for path, (counts, total) in sorted(seconds.items()):
            below, buckets = 0, []
            for edge, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
                below += count
                buckets.append((edge, below))
            family.add_metric([path], buckets, sum_value=total)
        return family


_LABELLED = ("statements", "queries", "parts", "bytes", "rows", "ingest_records")
"""Counters that have no value before they are first counted: which labels there will be is not known."""
