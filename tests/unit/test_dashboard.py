"""The dashboard and the alert rules ask for metrics and labels that exist, and Grafana can read the file."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tidegate
from deploy.alert_rules import ALERT_RULES
from deploy.dashboard import ALERTS, DASHBOARD, alerts_text, dashboard_text
from deploy.panels import ROWS
from tidegate.metrics import HELP
from tidegate.storage.stats.part_stats import PartStats

EXPRESSIONS = [
    *(query for _, row in ROWS for panel in row for query, _ in panel.queries),
    *(rule.expression for rule in ALERT_RULES),
]
OF_PROMETHEUS = {"job", "instance", "le"}
_PUBLIC = {name: getattr(tidegate, name) for name in tidegate.__all__}
OUTCOMES = {"ok", "internal", "cancelled"} | {
    name for name, value in _PUBLIC.items() if isinstance(value, type) and issubclass(value, Exception)
}
NOT_HERE = {"what": {"expired", "filtered", "settled", "bad"}}
"""Values that only sources and compaction count: `tests/unit/test_metrics.py` and `tests/ingest` see them."""


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """The labels and their values of each metric of a database that has worked, by the name of the sample."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "a.json").write_text('{"id": 1}\n')
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    with tidegate.open(folder / "lake") as db:
        work(db, folder)
        for family in text_string_to_metric_families(db.metrics()):
            for sample in family.samples:
                for label, value in sample.labels.items():
                    found[sample.name][label].add(value)
                found[sample.name]  # one without labels is there too
    return found


def work(db: tidegate.Database, folder: Path) -> None:
    """Makes a database count everything that it counts without Spark."""
    db.sql("CREATE TABLE t (id int8, s text)")
    db.append("t", {"id": [1, 2], "s": ["a", "b"]})
    db.append("t", {"id": [10, 20], "s": ["a", "b"]})
    db.sql("SELECT s FROM t WHERE id = 1")
    db.sql("DELETE FROM t WHERE id = 2")
    with pytest.raises(tidegate.TidegateError):
        db.sql("SELECT 1 / id FROM nowhere")
    db.set("stats_budget", 20)
    db.append("t", {"id": [1], "s": ["long " * 20]})
    shard = db.context.table("t")
    replace(shard, describe=lambda *_: PartStats(b"\x63 nobody", b"")).append({"id": [2], "s": ["x"]})
    db.sql("SELECT s FROM t WHERE id = 2")
    db.set("maintenance_parts", 2)
    db.append("t", {"id": [3], "s": ["x"]})
    db.sql(f"CREATE SOURCE src FROM FILES '{folder}/*.json' FORMAT JSON")
    db.ingest("src", once=True, spark=False)


def uses(expression: str) -> Iterator[tuple[str, set[str], dict[str, str]]]:
    """Each metric in an expression, the labels that are used with it, and the values that are compared."""
    grouped = {
        label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in labels.split(",")
    }
    for name, _, matchers in re.findall(r"\b((?:tidegate_\w+)|up)(\{([^}]*)\})?", expression):
        pairs = re.findall(r'(\w+)\s*(?:=~|!=|!~|=)\s*"([^"]*)"', matchers)
        yield name, {label for label, _ in pairs} | grouped, dict(pairs)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_metrics_and_labels_exist(expression: str, metrics: dict[str, dict[str, set[str]]]) -> None:
    seen = list(uses(expression))
    assert seen
    for name, labels, values in seen:
        if name == "up":
            continue
        assert name in metrics
        assert labels - OF_PROMETHEUS <= metrics[name].keys(), name
        for label, value in values.items():
            wanted = set() if label in OF_PROMETHEUS else set(value.split("|"))
            possible = OUTCOMES if label == "outcome" else metrics[name][label] | NOT_HERE.get(label, set())
            assert wanted <= possible, (name, label)


def test_a_metric_that_does_not_exist_would_be_found(metrics: dict[str, dict[str, set[str]]]) -> None:
    (name, labels, _), *_ = uses('sum by (colour) (rate(tidegate_nonsense_total{what="x",@}[5m]))')
    assert name not in metrics
    assert labels == {"colour", "what"}


def test_most_metrics_are_shown() -> None:
    shown = {name for expression in EXPRESSIONS for name, _, _ in uses(expression)}
    assert {f"tidegate_{name}_total" for name in HELP} - shown == {
        "tidegate_pages_skipped_total",
        "tidegate_join_reductions_total",
    }


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_brackets_of_an_expression_match(expression: str) -> None:
    for opening, closing in ("()", "[]", "{}"):
        assert expression.count(opening) == expression.count(closing)
    assert not re.search(r"(?:rate|increase)\([^\[)]*\)", expression)  # they need a range


def test_the_files_are_those_of_the_tables() -> None:
    assert DASHBOARD.read_text(encoding="utf-8") == dashboard_text(), "run: python -m deploy.dashboard"
    assert ALERTS.read_text(encoding="utf-8") == alerts_text(), "run: python -m deploy.dashboard"


def test_grafana_can_read_the_dashboard() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert board["schemaVersion"] >= 36
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", board["uid"])
    assert {"title", "panels", "templating", "time", "timezone", "annotations", "editable"} <= board.keys()
    variables = {one["name"] for one in board["templating"]["list"]}
    assert variables == {"datasource", "job", "instance"}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        assert panel["type"] in ("row", "stat", "timeseries")
        place = panel["gridPos"]
        taken = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in taken) < 24
        cells |= taken
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0
        assert panel["description"].endswith(".") or ":" in panel["description"]
        used = {name for target in panel["targets"] for name in re.findall(r"\$(\w+)", target["expr"])}
        assert used - {"__rate_interval", "__range"} <= variables


def test_alert_rules_are_named_once_and_say_what_to_do() -> None:
    names = [rule.name for rule in ALERT_RULES]
    assert len(set(names)) == len(names)
    for rule in ALERT_RULES:
        assert re.fullmatch(r"\d+[smhd]", rule.wait)
        assert rule.severity in ("warning", "critical")
        assert len(rule.description) > len(rule.summary)
