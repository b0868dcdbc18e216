"""The history of sources: bounded samples, rates, lag in the best unit that is known, and their drawing."""

from __future__ import annotations

import threading

import tidegate
from tidegate.ingest import Lag
from tidegate.ingest.batch import RecordCounts
from tidegate.ingest.runtime import SourceStatus
from tidegate.server.gateway import Gateway
from tidegate.server.web.sources.chart import POINTS, line_chart
from tidegate.server.web.sources.history import KEPT_SECONDS, SourceHistory, SourceSampler, lag_series, rates


def status(records: int, lag: Lag | None = None, committed: int | None = None) -> SourceStatus:
    return SourceStatus("kafka", "running", total=RecordCounts(records=records), lag=lag, committed=committed)


def test_an_hour_is_kept() -> None:
    history = SourceHistory()
    for at in range(0, int(2 * KEPT_SECONDS), 10):
        history.add({"a": status(at)}, float(at))
    samples = history.of("a")
    assert len(samples) == KEPT_SECONDS / 10 + 1
    assert samples[-1].at - samples[0].at == KEPT_SECONDS
    history.add({"b": status(1)}, 8_000.0)
    assert (history.of("a"), len(history.of("b"))) == ([], 1), "a dropped source is forgotten"


def test_rates_are_between_samples() -> None:
    history = SourceHistory()
    for at, records in ((0.0, 0), (1.0, 100), (11.0, 1_100), (12.0, 1_000)):
        history.add({"a": status(records)}, at)
    assert rates(history.of("a")) == [(1.0, 100.0), (11.0, 100.0), (12.0, 0.0)], "never below zero"


def test_lag_is_in_the_best_unit() -> None:
    history = SourceHistory()
    history.add({"a": status(0, Lag(records=5)), "b": status(0, committed=1_000), "c": status(0)}, 2.0)
    history.add({"a": status(0, Lag(7, 10, 250)), "b": status(0, committed=1_000), "c": status(0)}, 4.0)
    assert lag_series(history.of("a")) == ("milliseconds", [(4.0, 250.0)])
    assert lag_series(history.of("a")[:1]) == ("records", [(2.0, 5.0)])
    assert lag_series(history.of("b")) == ("age", [(2.0, 1_000.0), (4.0, 3_000.0)])
    assert lag_series(history.of("c")) == ("age", [])


def test_peaks_survive_in_the_drawing() -> None:
    points = [(float(at), 990.0 if at == 1_234 else 1.0) for at in range(3_600)]
    drawn = line_chart(points, "x", heading="x", label=lambda value: f"{value:g}")
    assert drawn.count("L") <= 2 * POINTS  # the line and the area below it
    assert "now 1, at most 990 in the last 60 minutes" in drawn
    assert "not enough samples" in line_chart([], "x", heading="x", label=str)


def test_the_sampler_ends_with_its_gateway() -> None:
    def samplers() -> int:
        return sum(thread.name == "tidegate-sources" for thread in threading.enumerate())

    before = samplers()
    with tidegate.open("memory://") as db:
        gateway = Gateway(db)
        sampler = SourceSampler(gateway)
        assert samplers() == before + 1
        gateway.close()
        sampler.thread.join(30)
        assert not sampler.thread.is_alive()
        forgotten = Gateway(db)
        other = SourceSampler(forgotten)
        forgotten.threads.shutdown()
        del forgotten
        other.thread.join(30)
        assert not other.thread.is_alive(), "the thread holds no server that nobody uses"
