"""The second half of `make demo`: reads that fetch only what can matter, on a month of orders and a table of sixteen columns.

| section | what to look at |
|---|---|
| LIMIT, top-k | one part of thirty is opened, and of it the columns that are needed |
| metadata | no part is opened at all |
| late materialisation | the same rows, for a fraction of the bytes |
| DELETE, UPDATE | one batch each, and what was there before can still be read |
| EXPLAIN | how a query would be answered, and what each condition of its filter is worth |

Every number is the result's own (`Result.scan`), and what a fast path gives is compared with the same query without it.
"""

from __future__ import annotations

import re
import tempfile
import textwrap

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.scan.result import Result

PLAIN = "OPTIONS (fast_path = off, stats_filter = off, late_materialization = off)"
"""Reads every row of every part."""
RUN = 250
"""Trips in a row that are in the same state."""
MEASURES = 12


def show_reads(columns: str, days: list[pa.Table], rows: int) -> None:
    """All sections: `columns` and `days` are those of the table of orders, `rows` is how many a day has."""
    with tempfile.TemporaryDirectory() as folder, tidegate.open(folder) as db:
        db.sql(f"CREATE TABLE orders ({columns}) CLUSTER BY (created_at)")
        for day in days:
            db.append("orders", day)
        peek(db)
        tell(db)
        wide(db, max(40 * rows, 65_536))
        explain(db)
        change(db)


def peek(db: tidegate.Database) -> None:
    """LIMIT alone, and behind ORDER BY."""
    _title("LIMIT: a peek opens as few parts as it can")
    _ask(db, "SELECT * FROM orders LIMIT 10")
    _ask(db, "SELECT * FROM orders WHERE created_at + '1 day' > '2024-12-15' LIMIT 10")
    _title("ORDER BY … LIMIT: parts in the order of their bounds, until none can win")
    _ask(db, "SELECT id, customer FROM orders ORDER BY created_at DESC, id LIMIT 5", PLAIN)
    _ask(db, "SELECT total FROM orders ORDER BY total DESC LIMIT 5", PLAIN)


def tell(db: tidegate.Database) -> None:
    """Aggregates, with and without reading."""
    _title("counts and bounds that statistics tell")
    _ask(db, "SELECT count(*), min(created_at), max(id) FROM orders", PLAIN)
    _ask(db, "SELECT count(*), max(total) FROM orders WHERE created_at::date > '2024-12-10'", PLAIN)
    _title("groups of what is left")
    since = "created_at >= '2024-12-29'"
    _ask(db, f"SELECT payload->>'kind', sum(total) FROM orders WHERE {since} GROUP BY 1 ORDER BY 1", PLAIN)


def wide(db: tidegate.Database, rows: int) -> None:
    """Late materialisation: one part, whose pages all hold all states, so that statistics cannot help."""
    _title("late materialisation: the column that filters first, then what is needed")
    random = np.random.default_rng(7)
    runs = np.arange(rows) // RUN
    state = np.where(runs % 400 == 150, "stuck", np.array(["arrived", "done", "waiting"])[runs % 3])
    measures = {f"m{i}": random.integers(0, 1 << 40, rows) for i in range(MEASURES)}
    note = np.char.add("note ", random.integers(0, 1 << 60, rows).astype(str))
    db.sql(
        f"CREATE TABLE trips (id int8, state text, run int8, {', '.join(f'{m} int8' for m in measures)}, note text)"
    )
    db.append("trips", {"id": np.arange(rows), "state": state, "run": runs, **measures, "note": note})
    print(f"  trips: {rows:,} rows of {MEASURES + 4} columns in one part, states in runs of {RUN}\n")
    sql = "SELECT * FROM trips WHERE state = 'stuck'"
    late = _ask(db, sql)
    plain = _ask(db, f"{sql} OPTIONS (late_materialization = off)")
    _same(late, plain)
    share = late.scan.bytes_read / plain.scan.bytes_read
    print(f"    the same rows, for {share:.0%} of the bytes")


def change(db: tidegate.Database) -> None:
    """DELETE and UPDATE, and the time before."""
    _title("DELETE and UPDATE: each one atomic batch; the past stays readable")
    before = db.status().collections["orders"].upper - 1
    late = "created_at >= '2024-12-30'"
    for sql in (
        f"DELETE FROM orders WHERE total < 500 AND {late}",
        f"UPDATE orders SET total = 0 WHERE total > 900 AND {late}",
    ):
        print(f"  {sql}\n    {db.sql(sql).text()}")
    sql = f"SELECT sum(total) FROM orders WHERE {late}"
    _ask(db, sql, PLAIN)
    _ask(db, f"{sql} AS OF {before}", PLAIN)


def explain(db: tidegate.Database) -> None:
    """How it would be done, and what each condition is worth."""
    _title("EXPLAIN: what would be read, and why")
    _say(db, "EXPLAIN SELECT id, note FROM trips WHERE state = 'stuck' AND m3 % 7 = 0")
    _title("EXPLAIN FILTER PUSHDOWN: does a condition drop parts, and if not, why")
    conditions = "created_at::date >= '2024-12-29' AND total > 5 AND md5(customer) = 'x'"
    _say(db, f"EXPLAIN FILTER PUSHDOWN SELECT id FROM orders WHERE {conditions}")


def _title(text: str) -> None:
    print(f"\n— {text}\n")


def _ask(db: tidegate.Database, sql: str, plain: str = "") -> Result:
    """Asks, and says what was read; with `plain` the query is asked again with these options, and must give the same."""
    result = db.sql(sql)
    scan = result.scan
    print(_folded(sql, "  "))
    if len(result) == 1:
        print(_folded(", ".join(map(str, result.rows()[0])), "    "))
    print(
        f"    {result.path}: {len(result):,} row{'s' if len(result) != 1 else ''}; {scan.parts_read} of "
        f"{scan.parts_total} parts, {_size(scan.bytes_read)} of {_size(scan.bytes_total)} read"
    )
    if plain:
        _same(result, db.sql(f"{sql} {plain}"))
        print("    and the same when everything is read")
    return result


def _same(one: Result, other: Result) -> None:
    if one.rows() != other.rows():
        raise SystemExit("the answers differ: this is a bug")


def _say(db: tidegate.Database, sql: str) -> None:
    """What EXPLAIN says, which is made for 100 columns, on 80."""
    print(_folded(sql, "  ") + "\n")
    for line in db.sql(sql).text().splitlines():
        indent = " " * (len(line) - len(line.lstrip(" │└├─")) + 2)
        items = re.split(r"(?<=\S) {3,}", line)
        beside = "   ".join(items)
        lines = [beside] if len(beside) < 78 else [items[0], *(indent + item for item in items[1:])]
        print("\n".join(_folded(one, "  ", indent + "  ") for one in lines))


def _folded(text: str, first: str, more: str = "") -> str:
    lines = textwrap.wrap(
        text, 80, initial_indent=first, subsequent_indent=first + more, replace_whitespace=False
    )
    return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB" if count else "0 bytes"
