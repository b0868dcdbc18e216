"""Random statements that change rows, for our database and for a PostgreSQL to run alike.

Tables are small and keys few, so that rows meet: several rows of t have one id, sources have ids that t lacks, and NULLs are among
them. Where PostgreSQL may choose (a row with several partners in UPDATE … FROM) sources have each id once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

T = "id int8, g int4 DEFAULT 4, n int8, s text"
U = "id int4, n int4, s text"
CONDITIONS = (
    "t.n > 3", "t.s IS NULL", "t.g = 1", "t.id < 5", "t.id IN (SELECT id FROM u WHERE n > 2)", "t.s > 'b'",
    "EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND u.n >= t.g)", "t.n >= (SELECT max(n) FROM t AS o) - 2",
    "t.g <> ALL (SELECT n FROM u WHERE n IS NOT NULL)", "t.id NOT IN (SELECT id FROM u WHERE id > 4)", "t.id % 2 = 0",
    "(t.id, t.g) IN (SELECT id, n FROM u)", "NOT EXISTS (SELECT 1 FROM u WHERE u.id = t.id)",
)  # fmt: skip
NUMBERS = (
    "t.n + 1", "12 / t.g", "DEFAULT", "NULL", "(SELECT count(*) FROM u WHERE u.id = t.id)", "t.g * 2 - t.n", "t.n", "7.5",
    "(SELECT max(o.n) FROM t AS o WHERE o.g = t.g)", "CASE WHEN t.g > 1 THEN t.n ELSE t.id END",
)  # fmt: skip
TEXTS = (
    "'x'",
    "t.s || '!'",
    "DEFAULT",
    "upper(t.s)",
    "(SELECT min(s) FROM u WHERE u.id = t.id)",
    "t.s",
    "t.g::text",
)
ROWS = (
    "(n, s) = (SELECT max(u.n), min(u.s) FROM u WHERE u.id = t.id)",
    "(s, n) = (t.s || 'r', DEFAULT)",
    "(g, n) = ROW(t.g + 1, t.n - 1)",
    "(n, g) = (SELECT 1, 2 WHERE t.g > 1)",
)
ONCE = (
    "(SELECT id, max(n) AS n, min(s) AS s FROM u GROUP BY id) AS v",
    "(VALUES (1, 10, 'p'), (3, NULL, 'q'), (9, 30, NULL)) AS v (id, n, s)",
    "(SELECT DISTINCT ON (id) id, n, s FROM u ORDER BY id, n, s) AS v",
)
"""Sources that have each id once."""
MANY = ("u AS v", "(SELECT id, n, s FROM u WHERE n > 1) AS v", *ONCE)


@dataclass(frozen=True)
class Statement:
    """A statement of ours, and what PostgreSQL 15 has for it: several, if it lacks a clause of PostgreSQL 17."""

    ours: str
    theirs: tuple[str, ...]
    unique: bool = False
    """ON CONFLICT: there, an index on id is needed while it runs."""


def statement(r: random.Random) -> Statement:
    """One that is chosen at random."""
    return r.choice([_update, _update, _delete, _insert, _conflict, _conflict, _merge, _merge])(r)


def _same(sql: str, *, unique: bool = False) -> Statement:
    return Statement(sql, (sql,), unique)


def _where(r: random.Random, *more: str) -> str:
    found = [*more, *r.sample(CONDITIONS, r.randrange(3 - len(more)))]
    return f" WHERE {' AND '.join(f'({one})' for one in found)}" if found else ""


def _set(r: random.Random, *, joined: bool) -> str:
    numbers = (*NUMBERS, "v.n", "coalesce(v.n, 0) + t.n") if joined else NUMBERS
    texts = (*TEXTS, "v.s", "v.s || coalesce(t.s, '-')") if joined else TEXTS
    if r.random() < 0.2:
        return r.choice(ROWS)
    found = [
        f"n = {r.choice(numbers)}",
        f"s = {r.choice(texts)}",
        f"g = {r.choice(('t.g + 1', 'DEFAULT', '1'))}",
    ]
    return ", ".join(r.sample(found, r.randrange(1, 4)))


def _returning(r: random.Random, *, joined: bool) -> str:
    choices = [
        "",
        " RETURNING *",
        " RETURNING t.id, t.n + 1 AS m, t.s",
        " RETURNING (SELECT count(*) FROM u) AS c, t.n",
    ]
    if joined:
        choices += [" RETURNING v.*, t.g", " RETURNING t.id + coalesce(v.n, 0), v.s"]
    return r.choice(choices)


def _update(r: random.Random) -> Statement:
    common, alias = r.choice([("", "t"), ("", "t"), ("WITH w AS (SELECT max(n) AS top FROM u) ", "t")])
    joined = r.random() < 0.6
    where = _where(r, "t.id = v.id") if joined else _where(r)
    if common:
        where += " AND t.n < (SELECT top FROM w)" if where else " WHERE t.n < (SELECT top FROM w)"
    source = f" FROM {r.choice(ONCE)}" if joined else ""
    changes = _set(r, joined=joined)
    return _same(f"{common}UPDATE {alias} SET {changes}{source}{where}{_returning(r, joined=joined)}")


def _delete(r: random.Random) -> Statement:
    joined = r.random() < 0.5
    where = (
        _where(r, "t.id = v.id", *r.sample(["v.n > 1", "v.s IS NOT NULL"], r.randrange(2)))
        if joined
        else _where(r, r.choice(CONDITIONS))
    )
    source = f" USING {r.choice(ONCE)}" if joined else ""
    return _same(f"DELETE FROM t{source}{where}{_returning(r, joined=joined)}")


def _rows(r: random.Random) -> str:
    """VALUES for t; some ids are there already, some twice."""
    rows = []
    for _ in range(r.randrange(1, 5)):
        id_ = r.choice(["NULL", *map(str, range(1, 14))])
        g = r.choice(["DEFAULT", "0", "1", "2"])
        rows.append(
            f"({id_}, {g}, {r.randrange(9)}, {r.choice(['NULL', chr(39) + r.choice('abc') + chr(39)])})"
        )
    return f"VALUES {', '.join(rows)}"


def _insert(r: random.Random) -> Statement:
    rows = r.choice(
        [_rows(r), "(id, n) SELECT id + 10, n FROM u WHERE n > 2", "(s) VALUES ('only')", "DEFAULT VALUES"]
    )
    return _same(f"INSERT INTO t {rows}{_returning(r, joined=False)}")


def _conflict(r: random.Random) -> Statement:
    rows = r.choice([_rows(r), _rows(r), "(id, n, s) SELECT id, max(n), 'u' FROM u GROUP BY id"])
    action = "DO NOTHING"
    if r.random() < 0.65:
        number = r.choice(["excluded.n", "t.n + excluded.n", "t.n + 1", "DEFAULT", "(SELECT max(n) FROM u)"])
        text = r.choice(["excluded.s", "coalesce(t.s, '') || '+'", "'y'"])
        where = r.choice(
            ["", "", " WHERE t.n < 4", " WHERE excluded.s IS NOT NULL", " WHERE t.g < excluded.n"]
        )
        action = f"DO UPDATE SET n = {number}, s = {text}{where}"
    return _same(f"INSERT INTO t {rows} ON CONFLICT (id) {action}{_returning(r, joined=False)}", unique=True)


def _merge(r: random.Random) -> Statement:
    source, on = (
        r.choice(MANY),
        r.choice(["t.id = v.id", "t.id = v.id", "v.id = t.id AND t.g > 0", "t.id = v.id AND v.n > 1"]),
    )
    plain: list[str] = []
    for _ in range(r.randrange(1, 3)):
        when = r.choice(
            [
                "",
                " AND t.n > 3",
                " AND v.s IS NOT NULL",
                " AND t.g = 1 AND v.n > 0",
                " AND t.id IN (SELECT n FROM u)",
            ]
        )
        what = r.choice(
            [f"UPDATE SET {_set(r, joined=True)}", "DELETE", "DO NOTHING", "UPDATE SET n = v.n, s = v.s"]
        )
        plain.append(f" WHEN MATCHED{when} THEN {what}")
        if not when:
            break
    if r.random() < 0.7:
        when = r.choice(["", " AND v.n > 1"])
        what = r.choice(
            [
                "INSERT (id, n, s) VALUES (v.id, v.n, v.s)",
                "INSERT VALUES (v.id, DEFAULT, 1, 'new')",
                "INSERT (id) VALUES (v.id + 20)",
                "DO NOTHING",
            ]
        )
        plain.append(f" WHEN NOT MATCHED{when} THEN {what}")
    first = f"MERGE INTO t USING {source} ON {on}{''.join(plain)}"
    if r.random() < 0.65:
        return Statement(
            first.replace("NOT MATCHED", r.choice(["NOT MATCHED", "NOT MATCHED BY TARGET"])), (first,)
        )
    return _merge_by_source(r, source, on, first)


def _merge_by_source(r: random.Random, source: str, on: str, first: str) -> Statement:
    """NOT MATCHED BY SOURCE, which PostgreSQL has from 17 on: there, a DELETE and an UPDATE come before the MERGE."""
    alone = f"NOT EXISTS (SELECT 1 FROM {source} WHERE {on})"
    when = r.choice(["t.n > 3", "t.s IS NULL", "t.g = 1"])
    deleted, updated = when, f"({when}) IS NOT TRUE"
    ours = f" WHEN NOT MATCHED BY SOURCE AND {when} THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = t.n + 100"
    if r.random() < 0.5:
        deleted, updated = updated, when
        ours = f" WHEN NOT MATCHED BY SOURCE AND {when} THEN UPDATE SET n = t.n + 100 WHEN NOT MATCHED BY SOURCE THEN DELETE"
    before = (
        f"DELETE FROM t WHERE {alone} AND {deleted}",
        f"UPDATE t SET n = t.n + 100 WHERE {alone} AND {updated}",
    )
    return Statement(first + ours, (*before, first))
