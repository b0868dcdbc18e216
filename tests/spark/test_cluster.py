"""On a standalone cluster of two workers, of which one is killed with -9 in the middle of each step: nothing is lost or doubled.

TIDEGATE_CLUSTER_ROWS says how many rows: 400,000 by default, and then a worker is killed in two of the steps; 20,000,000 in
`make prove`, and then in four.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import Cluster, run_step, until
from tests.spark.lakes import no_orphans
from tests.spark.on_cluster import KILLED, STEPS, WRITERS

PATIENCE_S = 3000
"""For 20,000,000 rows on a busy machine; a driver that hangs is then killed, and its log shown."""
FEW, FEW_KILLED = 400_000, ("write", "ingest")
ROWS = int(os.environ.get("TIDEGATE_CLUSTER_ROWS", str(FEW)))


@pytest.mark.long
def test_a_worker_is_killed_in_the_middle_of_everything(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with Cluster(tmp_path / "cluster") as cluster:
        driver = cluster.driver("tests.spark.on_cluster", str(lake), str(ROWS))
        patience = threading.Timer(PATIENCE_S, driver.kill)
        patience.start()
        with driver:
            try:
                assert driver.stdout is not None
                lines = iter(driver.stdout.readline, "")
                until(lines, "ready", cluster)
                found = {step.__name__: stepped(cluster, driver, lines, step.__name__) for step in STEPS}
                assert driver.wait(120) == 0
            finally:
                patience.cancel()
                driver.kill()
    check(found)
    no_orphans(lake, 2 * int(time.time() * 1000))


def stepped(cluster: Cluster, driver: Any, lines: Iterator[str], name: str) -> dict[str, Any]:
    """What a step found, in the middle of which a worker may have been killed."""
    killed = name in (KILLED if ROWS > FEW else FEW_KILLED)
    found = run_step(cluster, driver, lines, name, -1 if killed else None)
    if killed and name != STEPS[-1].__name__:  # after the last the driver ends, and nobody starts one
        cluster.await_executor()
    return found


def check(found: dict[str, dict[str, Any]]) -> None:
    total = ROWS * (ROWS - 1) // 2
    squares = sum(n * n % 10007 for n in range(ROWS)) if ROWS <= 1_000_000 else None
    for step in ("write", "compact", "recluster"):
        count, sum_, least, greatest, odd, notes = found[step]["held"]
        assert (count, sum_, least, greatest, notes) == (ROWS, total, 0, ROWS - 1, ROWS), step
        assert odd == (squares if squares is not None else found["write"]["held"][4]), step
    few = ROWS // 4
    expected = {"rows": few, "marks": 3 * few, "kinds": 250}
    assert found["join"] == expected
    assert found["query"] == {**expected, "path": "spark"}
    assert 0 < found["write"]["parts"] <= WRITERS
    compacted = found["compact"]
    assert (compacted["removed"], compacted["conflicts"]) == (WRITERS, 0)
    assert compacted["parts"] == compacted["added"] < WRITERS
    pulled = range(1, 10 * ROWS, 4)
    assert found["ingest"]["pulled"] == [len(pulled), sum(pulled), pulled[-1]]
    assert (found["recluster"]["found"], found["recluster"]["read"]) == (1, 1)
