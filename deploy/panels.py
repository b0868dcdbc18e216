"""The panels of the Grafana dashboard, row by row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Panel:
    """One panel: queries with their legends, in `$…` of which SELECTOR is filled in as `@`."""

    title: str
    description: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    warn: float | None = None
    """From this value on a number is red."""


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Overview",
        (
            Panel(
                "Queries",
                "Queries a second, however they ended.",
                (("sum(rate(tidegate_queries_total{@}[$__rate_interval]))", ""),),
                "reqps",
                "stat",
                4,
            ),
            Panel(
                "Failed statements",
                "Share of statements that failed or were cancelled, of all in the time range.",
                (
                    (
                        (
                            'sum(increase(tidegate_statements_total{outcome!="ok",@}[$__range])) '
                            "/ sum(increase(tidegate_statements_total{@}[$__range]))"
                        ),
                        "",
                    ),
                ),
                "percentunit",
                "stat",
                4,
                warn=0.05,
            ),
            Panel(
                "Median time of a query",
                "Half of the queries of the time range were faster.",
                (
                    (
                        "histogram_quantile(0.5, sum by (le) (increase(tidegate_query_seconds_bucket{@}[$__range])))",
                        "",
                    ),
                ),
                "s",
                "stat",
                4,
            ),
            Panel(
                "Bytes pruned",
                "Share of the bytes that queries considered and did not have to read.",
                (
                    (
                        (
                            'sum(increase(tidegate_bytes_total{what="pruned",@}[$__range])) '
                            '/ sum(increase(tidegate_bytes_total{what="considered",@}[$__range]))'
                        ),
                        "",
                    ),
                ),
                "percentunit",
                "stat",
                4,
            ),
            Panel(
                "Bad records",
                "Records of sources that could not be decoded, in the time range: see <source>_errors.",
                (('sum(increase(tidegate_ingest_records_total{what="bad",@}[$__range]))', ""),),
                "short",
                "stat",
                4,
                warn=1,
            ),
            Panel(
                "Failed audits",
                "Pruned parts that held a matching row. Must be 0: keep the part, and report a bug.",
                (("sum(tidegate_audit_failures_total{@})", ""),),
                "short",
                "stat",
                4,
                warn=1,
            ),
        ),
    ),
    (
        "Queries",
        (
            Panel(
                "Queries by path",
                "How queries were answered: from metadata, few parts (peek), this process, an engine.",
                (("sum by (path) (rate(tidegate_queries_total{@}[$__rate_interval]))", "{{path}}"),),
                "reqps",
                stacked=True,
            ),
            Panel(
                "Time of queries",
                "Quantiles over all queries, until their last row was read.",
                tuple(
                    (
                        f"histogram_quantile({share}, sum by (le) (rate(tidegate_query_seconds_bucket{{@}}[$__rate_interval])))",
                        f"{100 * share:.0f} %",
                    )
                    for share in (0.5, 0.9, 0.99)
                ),
                "s",
            ),
            Panel(
                "Mean time by path",
                "Seconds of a query, by how it was answered.",
                (
                    (
                        (
                            "sum by (path) (rate(tidegate_query_seconds_sum{@}[$__rate_interval])) "
                            "/ sum by (path) (rate(tidegate_query_seconds_count{@}[$__rate_interval]))"
                        ),
                        "{{path}}",
                    ),
                ),
                "s",
            ),
            Panel(
                "Failed statements by outcome",
                "The class of the error; `internal` is a fault of Tidegate, of which the log has the trace.",
                (
                    (
                        'sum by (kind, outcome) (rate(tidegate_statements_total{outcome!="ok",@}[$__rate_interval]))',
                        "{{kind}} {{outcome}}",
                    ),
                ),
                "reqps",
                stacked=True,
            ),
            Panel(
                "Statements by kind",
                "All statements a second.",
                (("sum by (kind) (rate(tidegate_statements_total{@}[$__rate_interval]))", "{{kind}}"),),
                "reqps",
                stacked=True,
            ),
            Panel(
                "Peeks",
                "Reads of few parts that run now, and that wait for one of peeks_at_once.",
                (
                    ("sum(tidegate_peeks_running{@})", "running"),
                    ("sum(tidegate_peeks_waiting{@})", "waiting"),
                ),
            ),
        ),
    ),
    (
        "Pruning and reading",
        (
            Panel(
                "Bytes by what became of them",
                "Of the parts that queries considered: pruned by statistics, or read. Proven bytes are read without a filter.",
                (
                    (
                        'sum by (what) (rate(tidegate_bytes_total{what=~"pruned|read|audited",@}[$__rate_interval]))',
                        "{{what}}",
                    ),
                ),
                "Bps",
                stacked=True,
            ),
            Panel(
                "Parts by what became of them",
                "The same by parts.",
                (
                    (
                        'sum by (what) (rate(tidegate_parts_total{what=~"pruned|read|audited",@}[$__rate_interval]))',
                        "{{what}}",
                    ),
                ),
                stacked=True,
            ),
            Panel(
                "Bytes skipped inside of parts",
                "What late materialisation did not read of parts that were read.",
                (("sum(rate(tidegate_bytes_skipped_total{@}[$__rate_interval]))", "skipped"),),
                "Bps",
            ),
            Panel(
                "Rows read and returned",
                "Far more rows read than returned: EXPLAIN FILTER PUSHDOWN says which condition does not prune.",
                (
                    (
                        'sum by (what) (rate(tidegate_rows_total{what=~"read|returned",@}[$__rate_interval]))',
                        "{{what}}",
                    ),
                ),
                "short",
            ),
            Panel(
                "Parts pruned by keys of a join",
                "Parts that the keys of another side of a join ruled out.",
                (("sum(rate(tidegate_join_reduction_parts_total{@}[$__rate_interval]))", "parts"),),
            ),
            Panel(
                "Statistics that do not help",
                "Parts whose statistics were trimmed to stats_budget, and statistics that could not be read.",
                (
                    (
                        'sum(rate(tidegate_statistics_trimmed_total{what="parts",@}[$__rate_interval]))',
                        "trimmed",
                    ),
                    (
                        "sum by (why) (rate(tidegate_statistics_unreadable_total{@}[$__rate_interval]))",
                        "unreadable: {{why}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Writing and ingesting",
        (
            Panel(
                "Rows written",
                "Rows appended and deleted; settled: retractions that became deletions.",
                (
                    (
                        'sum by (what) (rate(tidegate_rows_total{what=~"appended|deleted|settled",@}[$__rate_interval]))',
                        "{{what}}",
                    ),
                ),
            ),
            Panel(
                "Size of an appended part",
                "Small parts make reads dear: larger batches, or compact more often.",
                (
                    (
                        (
                            "sum(rate(tidegate_appended_bytes_total{@}[$__rate_interval])) "
                            "/ sum(rate(tidegate_appended_parts_total{@}[$__rate_interval]))"
                        ),
                        "bytes",
                    ),
                ),
                "bytes",
            ),
            Panel(
                "Appends",
                "Batches that were committed, by all writers of this process, and the steps of maintenance that they took.",
                (
                    ("sum(rate(tidegate_appends_total{@}[$__rate_interval]))", "appends"),
                    ("sum(rate(tidegate_ingest_batches_total{@}[$__rate_interval]))", "batches of sources"),
                    (
                        "sum by (step) (rate(tidegate_maintenance_steps_total{@}[$__rate_interval]))",
                        "{{step}}",
                    ),
                ),
                "short",
            ),
            Panel(
                "Records of sources",
                "What became of the records that sources read.",
                (
                    (
                        "sum by (what) (rate(tidegate_ingest_records_total{@}[$__rate_interval]))",
                        "{{what}}",
                    ),
                ),
                "short",
                width=12,
                stacked=True,
            ),
            Panel(
                "Bytes of sources",
                "Size of the records before they were decoded.",
                (("sum(rate(tidegate_ingest_bytes_total{@}[$__rate_interval]))", "in"),),
                "Bps",
                width=12,
            ),
        ),
    ),
)
