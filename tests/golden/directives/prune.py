"""`prune`: what a filter does with six parts of a table of orders, one part a month.

    prune now=2024-07-01
    mz_now() <= created_at + '30 days'
    ----
    none jan feb mar apr may
    some jun
    why jun: …

The parts hold, in the statistics that a writer would have collected:

| column | jan | feb … jun |
|---|---|---|
| id int8 | 0 .. 999 | 1000 more each month |
| created_at timestamptz | the month | the month |
| shipped_at timestamp | 1 to 5 days later, may be NULL | likewise; all NULL in jun |
| day date | the month | the month |
| total numeric(10,2) | 1 .. 100 | 100 more each month |
| weight float8 | 0 .. 1 | one more each month; mar may hold NaN |
| qty int4 | -50 .. -40 | 20 more each month |
| name text | aaron .. azure | baker .. byron, carl .. cyrus, … |
| seen text | ISO timestamps of the month | of the month |
| state text | exactly 'open' | 'open' but apr, which is 'done'; jun without statistics |
| vip bool | false | false, but true in may, and either in jun |
| payload jsonb | {"ts": ms, "kind": "web", "user": {"age": 20..}} | in feb some ts are strings; in mar no kind |
| box row(w int8, h int8) | w as id, h -id | likewise |
| took interval | 1 to 2 hours | a day more each month |
"""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tests.golden.runner import directive
from tests.laws.json_oracle import domain_of_documents
from tidegate.expr.domain.interpret import Interpretation
from tidegate.expr.domain.reasons import explain_verdict
from tidegate.expr.domain.specs import Specs, Verdict
from tidegate.expr.evaluate.simplify import simplify_expression
from tidegate.expr.model.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    numeric,
    record,
)  # fmt: skip
from tidegate.sql.bind.query import bind_expression

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun")
NAMES = ("aaron azure", "baker byron", "carl cyrus", "dana dylan", "eddy ezra", "fabio fritz")
FLAG = [False] * 6


def starts() -> list[datetime]:
    return [datetime(2024, month, 1, tzinfo=UTC) for month in range(1, 8)]


def ends() -> list[datetime]:
    return [start - timedelta(seconds=1) for start in starts()[1:]]


def span(type_: Type, low: list[Any], high: list[Any], **flags: list[bool]) -> Specs:
    bounds = (pa.array(end, type_.arrow) for end in (low, high))
    return Specs.ranged(type_, *bounds, **{name: np.array(flag) for name, flag in flags.items()})


def moved(times: list[datetime], **by: float) -> list[datetime]:
    return [(time + timedelta(**by)).replace(tzinfo=None) for time in times]


def iso(times: list[datetime]) -> list[str]:
    return [time.strftime("%Y-%m-%dT%H:%M:%S.000Z") for time in times]


def documents() -> list[list[str]]:
    result: list[list[str]] = []
    for month, (start, end) in enumerate(zip(starts(), ends(), strict=False)):
        rows: list[dict[str, Any]] = [
            {"ts": int(at.timestamp() * 1000), "kind": "web", "user": {"age": 20 + month * 10 + i}}
            for i, at in enumerate((start, end))
        ]
        if month == 1:
            rows.append({"ts": "unknown", "kind": "app", "user": {"age": 33}})
        if month == 2:
            rows = [{k: v for k, v in row.items() if k != "kind"} for row in rows]
        result.append([json.dumps(row) for row in rows])
    return result


def orders() -> dict[str, Specs]:
    six = range(6)
    begin, end = starts()[:6], ends()
    box = record(("w", INT8), ("h", INT8))
    width = span(INT8, [1000 * i for i in six], [1000 * i + 999 for i in six])
    height = span(INT8, [-1000 * i - 999 for i in six], [-1000 * i for i in six])
    state = ["open", "open", "open", "done", "open", None]
    hours = [timedelta(days=i, hours=1) for i in six], [timedelta(days=i, hours=2) for i in six]
    took = [[pa.MonthDayNano([0, t.days, t.seconds * 10**9]) for t in side] for side in hours]
    return {
        "id": width,
        "created_at": span(TIMESTAMPTZ, begin, end),
        "shipped_at": span(
            TIMESTAMP, moved(begin, days=1), moved(end, days=5), null=[True] * 6, empty=[False] * 5 + [True]
        ),
        "day": span(DATE, [t.date() for t in begin], [t.date() for t in end]),
        "total": span(
            numeric(10, 2), [Decimal(100 * i + 1) for i in six], [Decimal(100 * i + 100) for i in six]
        ),
        "weight": span(
            FLOAT8, [float(i) for i in six], [i + 1.0 for i in six], nan=[*FLAG[:2], True, *FLAG[:3]]
        ),
        "qty": span(INT4, [20 * i - 50 for i in six], [20 * i - 40 for i in six]),
        "name": span(TEXT, [n.split()[0] for n in NAMES], [n.split()[1] for n in NAMES]),
        "seen": span(TEXT, iso(begin), iso(end)),
        "state": span(TEXT, state, state, null=[*FLAG[:5], True]),
        "vip": span(BOOL, [*FLAG[:4], True, False], [*FLAG[:4], True, True]),
        "payload": Specs.ranged(JSONB, None, None, json=domain_of_documents(documents())),
        "box": Specs.ranged(box, None, None, fields=(width, height)),
        "took": span(INTERVAL, *took, months=FLAG),
    }


ORDERS = orders()
COLUMNS = [(name, specs.type) for name, specs in ORDERS.items()]


@directive("prune")
def prune(args: str, lines: list[str]) -> str:
    options = dict(arg.split("=") for arg in args.split())
    at = date.fromisoformat(options["now"]) if "now" in options else None
    now = None if at is None else int(datetime(at.year, at.month, at.day, tzinfo=UTC).timestamp() * 1000)
    condition = simplify_expression(bind_expression("\n".join(lines), COLUMNS))
    interpretation = Interpretation(list(ORDERS.values()), (now, now))
    verdicts = np.broadcast_to(interpretation.of(condition).verdict(), 6)
    result = []
    for verdict in Verdict:
        parts = [month for month, given in zip(MONTHS, verdicts, strict=True) if given == verdict]
        if parts:
            result.append(f"{verdict.name.lower():4} {' '.join(parts)}")
    kept = [i for i in range(6) if verdicts[i] == Verdict.SOME]
    shown = kept[0] if kept else 0
    result += [
        f"why {MONTHS[shown]}: {reason}" for reason in explain_verdict(condition, interpretation, shown)
    ]
    return "\n".join(result)
