"""The alert rules of Prometheus."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Alert:
    """One alert rule."""

    name: str
    expression: str
    wait: str
    severity: str
    summary: str
    description: str


def first_or_more(counter: str, time: str) -> str:
    """Whether a counter has risen in this time. One with labels begins at its first count, of which `increase` sees nothing."""
    return f"increase({counter}[{time}]) > 0 or ({counter} unless {counter} offset {time}) > 0"


ALERT_RULES: tuple[Alert, ...] = (
    Alert(
        "TidegateDown",
        'up{job="tidegate"} == 0',
        "2m",
        "critical",
        "Tidegate does not answer",
        "Prometheus could not read /metrics of {{ $labels.instance }} for two minutes.",
    ),
    Alert(
        "TidegateAuditFailed",
        "increase(tidegate_audit_failures_total[1h]) > 0",
        "0m",
        "critical",
        "The statistics of a part are wrong",
        "A part that was pruned held a matching row. The query failed and named the part: keep it, and report a bug.",
    ),
    Alert(
        "TidegateInternalErrors",
        first_or_more('tidegate_statements_total{outcome="internal"}', "15m"),
        "0m",
        "warning",
        "Statements failed by a fault of Tidegate",
        "The log has the trace, by the id that the client saw (logger tidegate.internal).",
    ),
    Alert(
        "TidegateStoreErrors",
        'sum by (instance) (rate(tidegate_statements_total{outcome=~"StoreError|IndeterminateError|MissingObject"}[5m])) > 0',
        "5m",
        "critical",
        "The store of the lake fails",
        "Statements have failed for five minutes since the blob store or the metadata do not answer: tidegate doctor",
    ),
    Alert(
        "TidegateCorruptData",
        first_or_more('tidegate_statements_total{outcome="CorruptError"}', "1h"),
        "0m",
        "critical",
        "A file of the lake is damaged",
        "The error names the file. tidegate doctor --deep lists all damaged ones; restore them from a backup.",
    ),
    Alert(
        "TidegateManyFailures",
        'sum by (instance) (rate(tidegate_statements_total{outcome!="ok"}[10m])) '
        "/ sum by (instance) (rate(tidegate_statements_total[10m])) > 0.2",
        "10m",
        "warning",
        "More than a fifth of the statements fail",
        "tidegate_statements_total by outcome says why.",
    ),
    Alert(
        "TidegateSlowQueries",
        "histogram_quantile(0.95, sum by (instance, le) (rate(tidegate_query_seconds_bucket[10m]))) > 10",
        "15m",
        "warning",
        "One query in twenty takes longer than ten seconds",
        "Compare bytes read with bytes considered: pruning may have got worse. EXPLAIN ANALYZE shows the stages.",
    ),
    Alert(
        "TidegatePeeksWait",
        "tidegate_peeks_waiting > 10",
        "5m",
        "warning",
        "Queries wait for a slot",
        "More than ten LIMIT queries have waited for five minutes: raise peeks_at_once, or add a server.",
    ),
    Alert(
        "TidegateBadRecords",
        'sum by (instance) (increase(tidegate_ingest_records_total{what="bad"}[15m])) > 0',
        "0m",
        "warning",
        "A source sends records that cannot be decoded",
        "They are in <source>_errors: SELECT message, position FROM <source>_errors LIMIT 10",
    ),
    Alert(
        "TidegateIngestionStopped",
        "increase(tidegate_ingest_batches_total[30m]) == 0 and increase(tidegate_ingest_batches_total[1d] offset 30m) > 0",
        "10m",
        "warning",
        "No source has committed a batch for half an hour",
        "There were batches in the day before. tidegate status shows the state of each source, tidegate doctor its lag.",
    ),
    Alert(
        "TidegateStatisticsUnreadable",
        first_or_more("tidegate_statistics_unreadable_total", "1h"),
        "0m",
        "warning",
        "Statistics of parts cannot be read",
        "Results are right, but these parts are always read: db.backfill_statistics collects them again.",
    ),
    Alert(
        "TidegatePruningFails",
        "increase(tidegate_prune_failures_total[1h]) > 0 or increase(tidegate_translation_failures_total[1h]) > 0",
        "0m",
        "warning",
        "Filters of Spark are not used for pruning",
        "A fault of Tidegate with a filter: results are right, and all parts are read. The log names the filter's class.",
    ),
)
