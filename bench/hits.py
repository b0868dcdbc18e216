"""A made-up table shaped like a web analytics log: 60 columns, URLs, titles, a JSON payload of 300 bytes; and questions to it.

It has the shape of the tables that people benchmark with, and none of their data: every value comes from numpy's generator with a
fixed seed, so that everyone who makes it gets the same rows.

Each kind of question is asked at several selectivities, and where its matches lie is known by construction:

| kind | filter | matches lie |
|---|---|---|
| rc | `event_time` between two times | in one range: rows come in the order of time |
| er | `counter_id = k` | in runs of 2,000 rows (of all there are, if fewer) |
| lr | `title LIKE '%…%'` | in runs, likewise |
| rn | `user_id < k` | scattered |
| eq | `browser = '…'` | scattered |
| lk | `url LIKE '%…%'` | scattered |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PART_ROWS = 1_000_000
RUN = 2_000
SELECTIVITIES = (1e-5, 1e-3, 1e-2, 0.1, 0.5)
KINDS = ("rc", "er", "lr", "rn", "eq", "lk")
LIE = {"rc": "range", "er": "runs", "lr": "runs", "rn": "scattered", "eq": "scattered", "lk": "scattered"}
START = datetime(2024, 1, 1, tzinfo=UTC)
STEP = 100_000
"""Microseconds from one row to the next."""
USERS = 10**12
FIRST_COUNTER = 2_000
"""The counters of question er are this one and the next four; others are around them."""
MARKS = ("amber", "birch", "cedar", "delta", "ember")
"""What LIKE and = look for, one for each selectivity; they occur nowhere else."""
OTHER = -1

WORDS = (  # noqa: SIM905  # a list of 100 quoted words is no easier to read
    "about account alpine archive autumn basket beacon blue booking bridge camera candle canyon catalog city coast coffee "
    "copper cotton culture daily desert dinner dream eagle earth engine evening family farm fashion field film finance "
    "forest fresh garden gift glass gold grain green guide harbor health hill history home honey house hotel island jacket "
    "journey kitchen lake lamp leather letter light linen list local lunch maple market meadow metal mirror modern moon "
    "morning mountain music nature news night north ocean office olive orange outdoor paper park pepper photo pine planet"
).split()


# ---------------------------------------------------------------- the columns


def scattered(rng: np.random.Generator, n: int) -> np.ndarray:
    """For each row which of the five marks it has, or OTHER: rows drawn at random, exactly as many as the selectivity says."""
    result = np.full(n, OTHER)
    rows = rng.permutation(n)
    begin = 0
    for i, share in enumerate(SELECTIVITIES):
        many = round(share * n)
        result[rows[begin : begin + many]] = i
        begin += many
    return result


def in_runs(rng: np.random.Generator, n: int) -> np.ndarray:
    """The same, with rows that come in runs."""
    result = np.full(n, OTHER)
    slots = rng.permutation(n // RUN)
    begin = 0
    for i, share in enumerate(SELECTIVITIES):
        many = round(share * n)
        runs = -(-many // RUN)
        for slot in slots[begin : begin + runs]:
            result[slot * RUN : slot * RUN + min(RUN, many)] = i
            many -= min(RUN, many)
        begin += runs
    return result


def words(rng: np.random.Generator, n: int, many: int = len(WORDS)) -> pa.Array:
    """Random words."""
    return pa.array(WORDS[:many]).take(pa.array(rng.integers(0, many, n)))


def joined(*pieces: pa.Array | str) -> pa.Array:
    """Texts side by side; numbers as their digits."""
    texts = [p if isinstance(p, str) else p.cast(pa.string()) for p in pieces]
    return pc.binary_join_element_wise(*texts, "")


def marked(marks: np.ndarray, others: pa.Array, prefix: str = "") -> pa.Array:
    """The mark of a row that has one, else something else."""
    named = pa.array([prefix + mark for mark in MARKS]).take(pa.array(np.maximum(marks, 0)))
    return pc.if_else(pa.array(marks >= 0), named, others)


def numbers(rng: np.random.Generator, n: int, below: int, type_: pa.DataType) -> pa.Array:
    """Random integers."""
    return pa.array(rng.integers(0, below, n)).cast(type_)


def texts(rng: np.random.Generator, n: int, in_order: np.ndarray) -> dict[str, pa.Array]:
    """Columns of text: long and distinct, and short and few."""
    number = numbers(rng, n, 10**9, pa.int64())
    site = numbers(rng, n, 4000, pa.int64())
    path = joined(words(rng, n), "/", words(rng, n), "/", marked(scattered(rng, n), words(rng, n)))
    url = joined(
        "https://www.site", site, ".example/", path, "/page-", pa.array(in_order), ".html?id=", number
    )
    heading = joined(words(rng, n), " ", words(rng, n), " ", words(rng, n, 20), " and ", words(rng, n, 12))
    title = joined(heading, " — ", marked(in_runs(rng, n), words(rng, n, 30)), " | site ", site)
    referer = joined("https://search.example/q=", words(rng, n), "+", words(rng, n), "&n=", number)
    phrase = pc.if_else(pa.array(rng.random(n) < 0.8), "", joined(words(rng, n), " ", words(rng, n)))
    few = {
        name: joined(prefix, numbers(rng, n, many, pa.int64()))
        for name, prefix, many in (
            ("os", "os ", 12), ("country", "C", 200), ("language", "lang-", 40), ("device", "model ", 900),
            ("source", "src", 30), ("city", "city ", 5000),
        )
    }  # fmt: skip
    browser = marked(scattered(rng, n), joined("browser ", numbers(rng, n, 60, pa.int64())), "browser ")
    return {"url": url, "title": title, "referer": referer, "phrase": phrase, "browser": browser, **few}


def payload(rng: np.random.Generator, n: int, in_order: np.ndarray) -> pa.Array:
    """JSON of about 300 bytes, with its keys in order and without spaces, as jsonb keeps it."""

    def number(below: int) -> pa.Array:
        return numbers(rng, n, below, pa.int64())

    return joined(
        '{"action":"', words(rng, n, 9), '","cart":{"items":', number(20), ',"total":', number(10**6), '},"device":{"h":',
        number(2000), ',"os":"', words(rng, n, 12), '","w":', number(3000), '},"experiments":["', words(rng, n), '","',
        words(rng, n), '"],"geo":{"lat":', number(90), ".", number(8999).cast(pa.int64()), '5,"lon":', number(180),
        ',"name":"', words(rng, n), '"},"referrer":"https://', words(rng, n), ".example/", number(10**6), '","session":"',
        number(10**15), '","ts":', pa.array(in_order), ',"user":{"age":', number(90), ',"name":"', words(rng, n), " ",
        words(rng, n), '","tags":["', words(rng, n), '","', words(rng, n), '"]}}',
    )  # fmt: skip


def part(number: int) -> pa.Table:
    """The rows of one part: 60 columns."""
    n, rng = PART_ROWS, np.random.default_rng([41, number])
    in_order = np.arange(number * n, (number + 1) * n)
    micros = int(START.timestamp()) * 10**6 + in_order * STEP

    def stamp(late: int) -> pa.Array:
        return pa.array(micros + rng.integers(0, late, n)).cast(pa.timestamp("us", "UTC"))

    runs = in_runs(rng, n)
    others = np.repeat(rng.integers(0, 5_000, n // RUN), RUN)
    others += np.where((others >= FIRST_COUNTER) & (others < FIRST_COUNTER + len(MARKS)), 10_000, 0)
    columns: dict[str, pa.Array] = {
        "watch_id": pa.array(rng.integers(-(2**62), 2**62, n)),
        "event_time": stamp(1),
        "user_id": numbers(rng, n, USERS, pa.int64()),
        "counter_id": pa.array(np.where(runs >= 0, FIRST_COUNTER + runs, others)).cast(pa.int32()),
        **texts(rng, n, in_order),
        "payload": payload(rng, n, in_order),
        "day": pa.array((micros // 86_400_000_000).astype(np.int32)).view(pa.date32()),
        "sent_at": stamp(10**6),
        "shown_at": stamp(10**8),
        "first_seen": pa.array(micros - rng.integers(0, 10**13, n)).cast(pa.timestamp("us", "UTC")),
    }
    columns |= {f"hash_{i}": pa.array(rng.integers(0, 2**62, n)) for i in range(5)}
    columns |= {f"code_{i}": numbers(rng, n, 3 * 4**i, pa.int32()) for i in range(12)}
    columns |= {f"flag_{i}": numbers(rng, n, 2 + i, pa.int16()) for i in range(9)}
    columns |= {f"is_{i}": pa.array(rng.random(n) < (i + 1) / 9) for i in range(4)}
    columns |= {f"measure_{i}": pa.array(rng.normal(100, 10 ** (i + 1), n)) for i in range(4)}
    columns |= {f"nothing_{i}": pa.repeat(pa.scalar(i, pa.int64()), n) for i in range(3)}
    columns |= {f"step_{i}": pa.array(in_order // (7 + i) % 100_000).cast(pa.int32()) for i in range(3)}
    assert len(columns) == 60, len(columns)
    return pa.table(columns)


SQL_TYPES = {
    "string": "text",
    "int64": "int8",
    "int32": "int4",
    "int16": "int2",
    "bool": "bool",
    "double": "float8",
}


def table_sql(like: pa.Schema) -> str:
    """CREATE TABLE for such rows."""
    named = {**SQL_TYPES, "date32[day]": "date", "timestamp[us, tz=UTC]": "timestamptz"}
    types = [(f.name, "jsonb" if f.name == "payload" else named[str(f.type)]) for f in like]
    return f"CREATE TABLE hits ({', '.join(f'{name} {type_}' for name, type_ in types)})"


# ---------------------------------------------------------------- the questions

FIVE = ("event_time", "user_id", "url", "country", "code_5")


@dataclass(frozen=True)
class Query:
    """One question: the rows of a filter, and how many columns of them."""

    kind: str
    selectivity: float
    columns: int
    rows: int
    """Of the table."""

    @property
    def matches(self) -> int:
        """How many rows it must give; of `rn`, about."""
        return round(self.selectivity * self.rows)

    @property
    def level(self) -> int:
        """Which of the five marks it looks for."""
        return SELECTIVITIES.index(self.selectivity)

    def sql(self) -> str:
        """For ours, DuckDB and DataFusion."""
        wanted = ", ".join(FIVE) if self.columns == len(FIVE) else "*"
        return f"SELECT {wanted} FROM hits WHERE {self.condition()}"

    def condition(self) -> str:
        """The filter in SQL."""
        mark = MARKS[self.level]
        match self.kind:
            case "rc":
                low, high = (f"TIMESTAMPTZ '{at:%Y-%m-%d %H:%M:%S.%f}+00'" for at in self.times())
                return f"event_time >= {low} AND event_time < {high}"
            case "er":
                return f"counter_id = {FIRST_COUNTER + self.level}"
            case "lr":
                return f"title LIKE '%{mark}%'"
            case "rn":
                return f"user_id < {int(self.selectivity * USERS)}"
            case "eq":
                return f"browser = 'browser {mark}'"
            case _:
                return f"url LIKE '%{mark}%'"

    def times(self) -> tuple[datetime, datetime]:
        """A range in the middle of the table."""
        first = (self.rows - self.matches) // 3
        return tuple(START + timedelta(microseconds=(first + i) * STEP) for i in (0, self.matches))  # type: ignore[return-value]  # two

    def polars(self) -> Any:
        """The filter for Polars."""
        import polars as pl

        col, mark = pl.col, MARKS[self.level]
        match self.kind:
            case "rc":
                low, high = self.times()
                return (col("event_time") >= low) & (col("event_time") < high)
            case "er":
                return col("counter_id") == FIRST_COUNTER + self.level
            case "lr":
                return col("title").str.contains(mark, literal=True)
            case "rn":
                return col("user_id") < int(self.selectivity * USERS)
            case "eq":
                return col("browser") == f"browser {mark}"
            case _:
                return col("url").str.contains(mark, literal=True)

    def __str__(self) -> str:
        return f"{self.kind} {self.selectivity:g} {self.columns}"


def queries(rows: int, kinds: Sequence[str] = KINDS) -> list[Query]:
    """All questions to a table of so many rows."""
    return [Query(k, s, c, rows) for c in (60, len(FIVE)) for k in kinds for s in SELECTIVITIES]
