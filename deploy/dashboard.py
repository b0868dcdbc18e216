"""Writes the Grafana dashboard and the alert rules of Prometheus: `python -m deploy.dashboard`.

    deploy/grafana/tidegate.json          Grafana → Dashboards → New → Import
    deploy/prometheus/alerts.yml          rule_files: [alerts.yml]

Both are made from the tables in `panels.py` and `alert_rules.py`.
A test compares the files with them, and every name and label with the metrics of a database
that has worked (`tests/unit/test_dashboard.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deploy.alert_rules import ALERT_RULES
from deploy.panels import ROWS, Panel

FOLDER = Path(__file__).parent
DASHBOARD, ALERTS = FOLDER / "grafana" / "tidegate.json", FOLDER / "prometheus" / "alerts.yml"
WIDTH = 24
"""Columns of Grafana's grid."""
SELECTOR = 'job=~"$job",instance=~"$instance"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }
        )
        y, x = y + 1, 0
        height = 4 if row[0].kind == "stat" else 8
        for panel in row:
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            position = {"x": x, "y": y, "w": panel.width, "h": height}
            panels.append(_panel(panel, len(panels) + 1, position))
            x += panel.width
        y += height
    return {
        "uid": "tidegate",
        "title": "Tidegate",
        "description": "Queries, pruning, writing and ingestion of tidegate serve and tidegate ingest.",
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _panel(panel: Panel, id_: int, position: dict[str, int]) -> dict[str, Any]:
    red = [] if panel.warn is None else [{"color": "red", "value": panel.warn}]
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": [{"color": "green", "value": None}, *red]},
    }
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 25 if panel.stacked else 0,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
        options: dict[str, Any] = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    else:
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "textMode": "auto",
        }
    return {
        "id": id_,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": SOURCE,
                "expr": query.replace("@", SELECTOR),
                "legendFormat": legend or "__auto",
                "range": panel.kind == "timeseries",
                "instant": panel.kind != "timeseries",
            }
            for i, (query, legend) in enumerate(panel.queries)
        ],
    }


def _variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    asked = {
        "job": "label_values(tidegate_appends_total, job)",
        "instance": 'label_values(tidegate_appends_total{job=~"$job"}, instance)',
    }
    return [
        {**source, "current": {}, "hide": 0, "includeAll": False, "multi": False, "refresh": 1, "regex": ""},
        *(
            {
                "name": name,
                "label": name,
                "type": "query",
                "datasource": SOURCE,
                "query": {"query": query, "refId": name},
                "definition": query,
                "current": {"text": "All", "value": "$__all"},
                "includeAll": True,
                "allValue": ".*",
                "multi": True,
                "refresh": 2,
                "sort": 1,
                "hide": 0,
                "regex": "",
            }
            for name, query in asked.items()
        ),
    ]


def dashboard_text() -> str:
    """The dashboard's file."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


def alerts_text() -> str:
    """The file of alert rules; its texts are quoted as JSON, which YAML reads alike."""
    lines = [
        "# Alert rules of Prometheus for Tidegate, written by deploy/dashboard.py.",
        "# prometheus.yml: rule_files: [alerts.yml]; the job that scrapes /metrics is called tidegate.",
        "groups:",
        "  - name: tidegate",
        "    rules:",
    ]
    for rule in ALERT_RULES:
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {_quoted(rule.expression)}",
            f"        for: {rule.wait}",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {_quoted(rule.summary)}",
            f"          description: {_quoted(rule.description)}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard_text(), encoding="utf-8")
    ALERTS.write_text(alerts_text(), encoding="utf-8")
