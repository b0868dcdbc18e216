"""Rows a second of each class of kernels, beside bare pyarrow and DuckDB on the same arrays.

    make bench-evaluate            # a million rows

Each line asks the same question of all three: ours as SQL by `bind_expression` and `evaluate` (errors and nulls included), bare
pyarrow by the kernels that a person would write down for it (without caring for overflow or NaN), DuckDB as SQL over the
Arrow arrays, on one thread. A dash: no such kernel. CPU time of this process, best of several.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expr.evaluate.evaluator import evaluate
from tidegate.expr.evaluate.simplify import simplify_expression
from tidegate.expr.model.types import BOOL, FLOAT8, INT8, JSONB, NUMERIC, TEXT, TIMESTAMPTZ, Type, numeric
from tidegate.sql.bind.query import bind_expression

RESULTS = Path(__file__).parent / "results"
LIST = ", ".join(str(i * 977) for i in range(1000))


class Question(NamedTuple):
    """One class of kernels: our SQL, DuckDB's, and pyarrow's way."""

    name: str
    ours: str
    duckdb: str | None
    arrow: Callable[[dict[str, pa.Array]], Any] | None


def data(rows: int) -> tuple[dict[str, pa.Array], list[tuple[str, Type]]]:
    """Columns of every kind, one in fifty null."""
    random = np.random.default_rng(1)
    gaps = random.random(rows) < 0.02

    def column(values: Any, type_: Type) -> pa.Array:
        return pa.array(values, mask=gaps).cast(type_.arrow)

    number = random.integers(-(10**6), 10**6, rows)
    price = numeric(12, 2)
    stamp = 1_700_000_000_000_000 + random.integers(0, 10**13, rows)
    words = np.array([f"{a}-{b}" for a in ("apple", "Banana", "cherry", "date") for b in range(250)])
    text = pa.array(words[random.integers(0, len(words), rows)])
    columns = {
        "a": column(number, INT8),
        "b": column(random.integers(1, 1000, rows), INT8),
        "x": column(random.normal(size=rows), FLOAT8),
        "y": column(random.normal(size=rows), FLOAT8),
        "p": column(number, INT8).cast(pa.decimal128(21, 2)).cast(price.arrow),
        "q": _long(random, rows, gaps),
        "flag": column(number % 2 == 0, BOOL),
        "t": text,
        "digits": column(number, INT8).cast(pa.string()),
        "at": column(stamp, TIMESTAMPTZ),
        "iso": pa.array(np.datetime_as_string(stamp.astype("datetime64[us]")).tolist(), pa.string()),
        "j": _documents(number, stamp, text),
    }
    types = [INT8, INT8, FLOAT8, FLOAT8, price, NUMERIC, BOOL, TEXT, TEXT, TIMESTAMPTZ, TEXT, JSONB]
    return columns, list(zip(columns, types, strict=True))


def _long(random: np.random.Generator, rows: int, gaps: np.ndarray) -> pa.Array:
    """Numerics with 18 random digits after the point, beyond 64 bits."""
    words = np.stack([random.integers(0, 2**63, rows), random.integers(-(2**30), 2**30, rows)], axis=1)
    array = pa.Array.from_buffers(NUMERIC.arrow, rows, [None, pa.py_buffer(words)])
    return pc.if_else(pa.array(gaps), pa.scalar(None, NUMERIC.arrow), array)


def _documents(number: np.ndarray, stamp: np.ndarray, text: pa.Array) -> pa.Array:
    """Canonical JSON of about 200 bytes."""
    pieces = (
        '{"n":',
        number,
        ',"ts":',
        stamp,
        ',"kind":"',
        text,
        '","user":{"age":',
        number % 90,
        ',"note":"',
        "z" * 100,
        '"}}',
    )
    columns = [pa.array(p.astype(str)) if isinstance(p, np.ndarray) else p for p in pieces]
    return pc.binary_join_element_wise(*columns, "")


QUESTIONS = [
    Question("compare integers", "a < b", "a < b", lambda c: pc.less(c["a"], c["b"])),
    Question("compare floats", "x < y", "x < y", lambda c: pc.less(c["x"], c["y"])),
    Question("compare text", "t >= 'cherry'", "t >= 'cherry'", lambda c: pc.greater_equal(c["t"], "cherry")),
    Question("add integers", "a + b", "a + b", lambda c: pc.add_checked(c["a"], c["b"])),
    Question("multiply integers", "a * b", "a * b", lambda c: pc.multiply_checked(c["a"], c["b"])),
    Question("divide integers", "a / b", "a // b", lambda c: pc.divide_checked(c["a"], c["b"])),
    Question("float arithmetic", "x * y + 1", "x * y + 1", lambda c: pc.add(pc.multiply(c["x"], c["y"]), 1.0)),
    Question("numeric arithmetic", "p * 2 + p", "p * 2 + p", lambda c: pc.add(pc.multiply(c["p"], pa.scalar(Decimal(2))), c["p"])),
    Question("square root", "sqrt(abs(x))", "sqrt(abs(x))", lambda c: pc.sqrt(pc.abs(c["x"]))),
    Question("AND, OR, NOT", "a < 0 AND (flag OR NOT b < 500)", "a < 0 AND (flag OR NOT b < 500)",
             lambda c: pc.and_kleene(pc.less(c["a"], 0), pc.or_kleene(c["flag"], pc.invert(pc.less(c["b"], 500))))),
    Question("CASE", "CASE WHEN flag THEN a ELSE b END", "CASE WHEN flag THEN a ELSE b END",
             lambda c: pc.if_else(pc.fill_null(c["flag"], False), c["a"], c["b"])),
    Question("COALESCE", "coalesce(a, b, 0)", "coalesce(a, b, 0)", lambda c: pc.coalesce(c["a"], c["b"], 0)),
    Question("IN of 1,000", f"a IN ({LIST})", f"a IN ({LIST})",
             lambda c: pc.is_in(c["a"], pa.array([i * 977 for i in range(1000)]))),
    Question("LIKE 'x%'", "t LIKE 'apple%'", "t LIKE 'apple%'", lambda c: pc.match_like(c["t"], "apple%")),
    Question("LIKE '%x%'", "t LIKE '%an%1%'", "t LIKE '%an%1%'", lambda c: pc.match_like(c["t"], "%an%1%")),
    Question("regular expression", "t ~ '^[a-c].*7$'", "regexp_matches(t, '^[a-c].*7$')",
             lambda c: pc.match_substring_regex(c["t"], "^[a-c].*7$")),
    Question("upper", "upper(t)", "upper(t)", lambda c: pc.utf8_upper(c["t"])),
    Question("substring", "substring(t, 2, 4)", "substring(t, 2, 4)", lambda c: pc.utf8_slice_codeunits(c["t"], 1, 5)),
    Question("concatenate", "t || '/' || digits", "t || '/' || digits",
             lambda c: pc.binary_join_element_wise(c["t"], c["digits"], "/")),
    Question("length", "length(t)", "length(t)", lambda c: pc.utf8_length(c["t"])),
    Question("md5", "md5(t)", "md5(t)", None),
    Question("numeric to text", "p::text", "p::varchar", lambda c: c["p"].cast(pa.string())),
    Question("numeric to integer", "p::int8", "p::bigint", None),
    Question("numeric to float", "p::float8", "p::double", lambda c: c["p"].cast(pa.float64())),
    Question("float to numeric", "x::numeric", "x::decimal(38,18)", None),
    Question("long numeric to text", "q::text", "q::varchar", lambda c: c["q"].cast(pa.string())),
    Question("long numeric to integer", "q::int8", "q::bigint", None),
    Question("long numeric to float", "q::float8", "q::double", lambda c: c["q"].cast(pa.float64())),
    Question("round a long numeric", "round(q, 2)", "round(q, 2)", lambda c: pc.round(c["q"], 2, "half_towards_infinity")),
    Question("text to integer", "digits::int8", "digits::bigint", lambda c: c["digits"].cast(pa.int64())),
    Question("integer to text", "a::text", "a::varchar", lambda c: c["a"].cast(pa.string())),
    Question("text to timestamp", "iso::timestamp", "iso::timestamp", lambda c: c["iso"].cast(pa.timestamp("us"))),
    Question("timestamp + interval", "at + '30 days'", '"at"::timestamp + interval 30 days',
             lambda c: pc.add(c["at"], pa.scalar(30 * 86_400_000_000, pa.duration("us")))),
    Question("date_trunc", "date_trunc('month', at)", """date_trunc('month', "at"::timestamp)""",
             lambda c: pc.floor_temporal(c["at"], unit="month")),
    Question("extract", "extract(hour FROM at)", 'extract(hour FROM "at"::timestamp)', lambda c: pc.hour(c["at"])),
    Question("timestamp to date", "at::date", '"at"::timestamp::date', lambda c: c["at"].cast(pa.date32())),
    Question("JSON path", "j->>'kind'", "j->>'kind'", None),
    Question("JSON, three paths",
             "j->>'kind' = 'apple-1' AND (j->'user'->>'age')::int8 > 5 AND (j->>'n')::int8 > 0",
             "j->>'kind' = 'apple-1' AND (j->'user'->>'age')::bigint > 5 AND (j->>'n')::bigint > 0", None),
]  # fmt: skip


def cpu_seconds(work: Callable[[], object], repeat: int = 5) -> float:
    """The least CPU time of several runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measure(rows: int) -> Iterator[tuple[str, float, float | None, float | None]]:
    """For each question: name, and CPU seconds of ours, pyarrow's and DuckDB's answer."""
    import duckdb

    columns, typed = data(rows)
    arrays = list(columns.values())
    con = duckdb.connect()
    con.execute("SET threads = 1; SET TimeZone = 'UTC'")
    con.register("given", pa.table(columns))
    for question in QUESTIONS:
        expr = simplify_expression(bind_expression(question.ours, typed))
        errors = evaluate(expr, arrays).errors
        assert errors is None, (question.name, errors)
        ours = cpu_seconds(lambda expr=expr: evaluate(expr, arrays))
        arrow = duck = None
        if question.arrow is not None:
            arrow = cpu_seconds(lambda kernels=question.arrow: kernels(columns))
        if question.duckdb is not None:
            query = f"SELECT {question.duckdb} AS r FROM given"
            duck = cpu_seconds(lambda query=query: con.sql(query).to_arrow_table())
        yield question.name, ours, arrow, duck


def main(rows: int) -> None:
    """Prints the table, and keeps it in bench/results/evaluate.md."""
    lines = [
        "| kernels | tidegate, M rows/s | pyarrow | DuckDB | against the best |",
        "|---|---:|---:|---:|---:|",
    ]
    print("\n".join(lines))
    slow = []
    for name, ours, arrow, duck in measure(rows):
        rates = [rows / t / 1e6 if t else None for t in (ours, arrow, duck)]
        best = max(r for r in rates[1:] if r is not None)
        shown = " | ".join("–" if r is None else f"{r:.1f}" for r in rates)
        ratio = (rates[0] or 0.0) / best
        slow += [name] if ratio < 0.5 else []
        lines.append(f"| {name} | {shown} | {ratio:.2f}× |")
        print(lines[-1], flush=True)
    lines += ["", f"Less than half as fast as the best: {', '.join(slow) or 'none'}."]
    print("\n".join(lines[-2:]))
    RESULTS.mkdir(exist_ok=True)
    text = "# Rows per second of each class of kernels\n\n"
    text += f"Measured by `make bench-evaluate` over {rows:,} rows, in CPU time, with one thread.\n\n"
    (RESULTS / "evaluate.md").write_text(text + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
