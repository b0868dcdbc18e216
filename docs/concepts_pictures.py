"""Draws the pictures of docs/concepts.md: `python docs/concepts_pictures.py` writes docs/pictures/concepts_*.svg.

As in `pruning_pictures.py`, nothing is drawn by hand: small lakes whose clocks stand still are asked, and the answers drawn.

| picture | from |
|---|---|
| `concepts_times.svg` | a table of stock: reads AS OF each time, `since` and `upper` after a compaction |
| `concepts_leases.svg` | what the state names and what the store holds before and after a compaction, with a reader in between |
| `concepts_expiry.svg` | a source of four files: the rows that a query sees on one day, and the parts that compaction drops |
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tidegate
from docs.pruning_pictures import FOLDER, legend, line, rect, svg, text
from tidegate.storage.shard.snapshot import open_snapshot

HOUR_MS = 3_600_000
TIMES = range(1, 9)


# ---------------------------------------------------------------- times


@dataclass(frozen=True)
class Stay:
    """A row of a collection, from the time it was added to the time it was retracted."""

    row: tuple[object, ...]
    begin: int
    end: int | None


def stock() -> tuple[dict[int, list[tuple[object, ...]]], int, int]:
    """The rows at each time, and `since` and `upper` after compaction has shortened the history to four milliseconds."""
    clock = tidegate.ManualClock(2)
    with tidegate.open("memory://", clock=clock) as db:
        db.sql("CREATE TABLE stock (item text, n int8) WITH (RETENTION '0.004 seconds')")
        db.sql("INSERT INTO stock VALUES ('pears', 5), ('figs', 2)")
        clock.advance(2)
        db.sql("UPDATE stock SET n = 3 WHERE item = 'pears'")
        clock.advance(2)
        db.sql("DELETE FROM stock WHERE item = 'figs'")
        clock.advance(2)
        db.sql("INSERT INTO stock VALUES ('plums', 7)")
        rows = {at: db.sql("SELECT * FROM stock ORDER BY 1", as_of=at).rows() for at in TIMES}
        db.compact("stock")
        found = db.status().collections["stock"]
    return rows, found.since, found.upper


def stays(rows: dict[int, list[tuple[object, ...]]]) -> list[Stay]:
    """When each row began and ended to be there."""
    order = dict.fromkeys(row for at in TIMES for row in rows[at])
    found = []
    for row in order:
        there = [at for at in TIMES if row in rows[at]]
        found.append(Stay(row, there[0], there[-1] + 1 if there[-1] < TIMES[-1] else None))
    return found


def times_picture() -> Iterator[str]:
    """Rows as bars over time, the two frontiers, and one read."""
    rows, since, upper = stock()
    found, bottom = stays(rows), 84.0 + 34 * len(stays(rows))

    def x(at: float) -> float:
        return 110 + at * 56

    yield text(
        10, 22, "each bar is a row: an update +1 begins it, an update −1 (a retraction) ends it", "dim"
    )
    yield rect(x(0), 40, x(since) - x(0), bottom - 40, "box")
    yield rect(x(upper), 40, x(11) - x(upper), bottom - 40, "box")
    for left, right, said in (
        (0, since, "AS OF: an error"),
        (since, upper, "AS OF: exact, now and later"),
        (upper, 11, "not complete yet"),
    ):
        yield text((x(left) + x(right)) / 2, 58, said, "small dim", "middle")
    for i, stay in enumerate(found):
        y = 72 + i * 34
        yield text(10, y + 15, ", ".join(map(str, stay.row)), "code")
        yield rect(
            x(stay.begin),
            y,
            x(stay.end or upper) - x(stay.begin),
            22,
            "all" if stay.row in rows[5] else "none",
        )
        yield text(x(stay.begin) + 5, y + 15, f"+1 at {stay.begin}", "small bar")
        if stay.end is not None:
            yield text(x(stay.end) - 5, y + 15, f"−1 at {stay.end}", "small bar", "end")
    yield from _axis(x, bottom, since, upper)
    yield line([(x(5), 64), (x(5), bottom + 4)], "now")
    yield line([(x(5), bottom + 20), (x(5), bottom + 44)], "now")
    shown = ", ".join(" ".join(map(str, row)) for row in rows[5])
    yield text(x(5), bottom + 58, f"SELECT … AS OF 5  →  {shown}", "code", "middle")


def _axis(x: Callable[[float], float], bottom: float, since: int, upper: int) -> Iterator[str]:
    yield line([(x(0), bottom), (x(11), bottom)], "line")
    for at in range(12):
        yield text(x(at), bottom + 16, str(at), "small dim", "middle")
    for at, name in ((since, "since"), (upper, "upper")):
        yield line([(x(at), 40), (x(at), bottom + 4)], "line")
        yield text(x(at), bottom + 32, name, "code", "middle")


# ---------------------------------------------------------------- leases


@dataclass(frozen=True)
class Moment:
    """A collection at one moment: the parts that its state names, those in the store, those that a reader reads."""

    title: str
    named: list[str]
    stored: list[str]
    read: list[str]


def moments() -> list[Moment]:
    """Before a compaction, after it, and when the reader has ended and `sweep` has run."""
    clock = tidegate.ManualClock(240 * HOUR_MS)
    numbers: dict[str, str] = {}
    found = []
    with tempfile.TemporaryDirectory() as folder, tidegate.open(f"{folder}/lake", clock=clock) as db:
        db.set("inline_bytes", 0)  # parts of one row, as files
        db.sql("CREATE TABLE orders (id int8)")
        for i in range(3):
            db.append("orders", {"id": [i]})
            clock.advance(1000)

        def moment(title: str, reader: list[str]) -> None:
            with open_snapshot(db.context.collection("orders")) as now:
                named = [part.name for part in sorted(now.parts(), key=lambda part: part.first)]
            stored = [
                f"part/{one.relative_to(Path(folder) / 'lake' / 'part')}"
                for one in sorted((Path(folder) / "lake" / "part").rglob("*"))
                if one.is_file()
            ]
            for key in named:
                numbers.setdefault(key, f"part {len(numbers) + 1}")
            found.append(
                Moment(title, *(sorted(numbers[key] for key in keys) for keys in (named, stored, reader)))
            )

        with open_snapshot(db.context.collection("orders")) as reader:
            reads = [part.name for part in reader.parts()]
            moment("1. a reader has taken a lease", reads)
            db.compact("orders", full=True)
            moment("2. compact has run meanwhile", reads)
        clock.advance(2 * HOUR_MS)
        db.sweep()
        moment("3. the reader is done; sweep has run", [])
    return found


def leases_picture() -> Iterator[str]:
    """Three moments beside each other."""
    yield from legend(
        10,
        22,
        (("all", "named by the state"), ("some", "kept for the reader by its lease"), ("box", "deleted")),
    )
    found = moments()
    every = sorted({name for one in found for name in one.stored})
    for i, one in enumerate(found):
        left = 10 + i * 246
        yield text(left, 54, one.title)
        for j, name in enumerate(every):
            y = 70 + j * 36
            there = name in one.stored
            later = not there and not any(name in before.stored for before in found[:i])
            if later:
                continue
            yield rect(left, y, 96, 26, "all" if name in one.named else "some" if there else "box")
            yield text(left + 48, y + 17, name, "small bar" if there else "small dim", "middle")
            if name in one.read:
                yield line([(left + 96, y + 13), (left + 136, 70 + 1 * 36 + 13)], "now")
        if one.read:
            yield rect(left + 136, 70 + 36, 70, 26, "box")
            yield text(left + 171, 70 + 36 + 17, "reader", "small", "middle")


# ---------------------------------------------------------------- expiry

START = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
NOW = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Window:
    """Rows of a source with expiry: their days by part, those that a query sees, and how many parts compaction drops."""

    days: list[list[int]]
    visible: set[int]
    dropped: int


def window() -> Window:
    """Five rows in each of four files, seen on the first of July."""
    days = [[file * 14 + i * 3 for i in range(5)] for file in range(4)]
    clock = tidegate.ManualClock(_ms(START))
    with tempfile.TemporaryDirectory() as folder, tidegate.open(f"{folder}/lake", clock=clock) as db:
        db.sql(f"""
            CREATE SOURCE recent FROM FILES '{folder}/*.json' FORMAT JSON
            TRANSFORM USING (
                SELECT day, at
                FROM (SELECT (data->>'day')::int8 AS day, (data->>'at')::timestamptz AS at FROM recent)
                WHERE mz_now() <= at + '30 days'
            )
            WITH (BATCH FILES 1, RETENTION '0 days')""")
        for number, file in enumerate(days):
            rows = [{"day": day, "at": (START + dt.timedelta(days=day)).isoformat()} for day in file]
            Path(f"{folder}/{number}.json").write_text("\n".join(map(json.dumps, rows)))
            clock.set(_ms(START + dt.timedelta(days=file[-1] + 1)))
            db.ingest("recent", once=True, spark=False)
        clock.set(_ms(NOW))
        visible = {row[0] for row in db.sql("SELECT day FROM recent").rows()}
        dropped = db.compact("recent").expired
    return Window(days, visible, dropped)


def _ms(at: dt.datetime) -> int:
    return int(at.timestamp() * 1000)


def expiry_picture() -> Iterator[str]:
    """Rows as bars from `at` to `at + 30 days`, by part."""
    found = window()

    def x(day: float) -> float:
        return 80 + day * 5.4

    today = (NOW - START).days
    yield text(10, 22, f"mz_now() <= at + '30 days'   at {NOW:%Y-%m-%d}", "code")
    yield from legend(10, 46, (("all", "the row counts"), ("none", "the row has expired")))
    for i, file in enumerate(found.days):
        top = 62 + i * 54
        yield rect(70, top, 540, 48, "box")
        yield text(10, top + 28, f"part {i + 1}", "small dim")
        for j, day in enumerate(file):
            yield rect(x(day), top + 5 + j * 8, 30 * 5.4, 6, "all" if day in found.visible else "none")
        count = len(found.visible & set(file))
        said = f"{count} of {len(file)} rows" if count else "dropped unread"
        yield text(622, top + 28, said, "small")
    assert sum(not found.visible & set(file) for file in found.days) == found.dropped
    bottom = 62 + 4 * 54
    yield line([(x(today), 56), (x(today), bottom)], "now")
    yield text(x(today), bottom + 14, "mz_now()", "small", "middle")
    yield text(
        10, bottom + 32, "each thin bar is a row, from `at` to the moment at which it expires", "small dim"
    )


def pictures() -> dict[str, str]:
    """All of them, by name."""
    return {
        "concepts_times.svg": svg(740, 300, "Rows over time, since and upper", times_picture()),
        "concepts_leases.svg": svg(740, 220, "A lease keeps what a reader reads", leases_picture()),
        "concepts_expiry.svg": svg(
            740, 325, "Rows that expire, and a part that is dropped", expiry_picture()
        ),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in pictures().items():
        (FOLDER / name).write_text(drawn, "utf-8")
        sys.stdout.write(f"{FOLDER / name}\n")
