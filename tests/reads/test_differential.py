"""Random queries × random data × random layouts: all flags on = each flag off = plain evaluation of everything.

Every query runs with all flags on, with each one off, with all off, and sometimes twice at once; statistics that prune are audited
for every part that they leave out. A flag is any knob of `config.py` that is on or off, but for the one that is about writing: a
new one is tried here as soon as it is there.

What is asked, and how much of it (`make test`): 9 small collections with 25 queries each, 2 of several pages a part with 20, one
with two row groups with 5. A small query takes some 20 ms under each of the five settings, so this is a minute or so on one core.
A failure prints the query and how its collection came to be; to see it again:

    TIDEGATE_SEED=<seed> TIDEGATE_READS=1 pytest tests/reads/test_differential.py -k <size>

`make prove` has more collections (TIDEGATE_READS) from a fresh seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tests.reads.grouping import equal
from tests.reads.layout import Made, Size, make
from tests.reads.oracle import Expected, evaluate
from tests.reads.questions import Asker, Question
from tidegate.config import Config
from tidegate.query.result import Result
from tidegate.storage.part.bitmaps import deletion_mask
from tidegate.storage.part.deletions import NEVER, PartRows
from tidegate.storage.part.encode import decode_part
from tidegate.storage.part.parts_table import PARTS_SCHEMA, parts_from_table

SEED = int(os.environ.get("TIDEGATE_SEED", "1"))
TIMES = int(os.environ.get("TIDEGATE_READS", "2"))
FLAGS = tuple(f.name for f in fields(Config) if isinstance(f.default, bool) and f.name != "stats_collection")
SIZES: dict[Size, tuple[int, int]] = {"small": (3, 25), "pages": (1, 20), "groups": (1, 5)}
"""Collections of a test, and queries over each."""

MANY = 100_000
"""Rows of a result that take longer to be compared than they are worth."""


def settings() -> Iterator[tuple[str, dict[str, bool]]]:
    """What is turned off, by name."""
    yield "all on", dict.fromkeys(FLAGS, True)
    for flag in FLAGS:
        yield f"{flag} off", {**dict.fromkeys(FLAGS, True), flag: False}
    yield "all off", dict.fromkeys(FLAGS, False)


@pytest.mark.parametrize("seed", [SEED + i for i in range(TIMES)])
def test_small(seed: int) -> None:
    run("small", seed)


@pytest.mark.parametrize("seed", [SEED + i for i in range(max(1, TIMES - 1))])
def test_pages(seed: int) -> None:
    run("pages", seed)


@pytest.mark.parametrize("seed", [SEED + i for i in range(max(1, TIMES // 4))])
def test_groups(seed: int) -> None:
    run("groups", seed)


@pytest.mark.parametrize("seed", [SEED + i for i in range(2 * TIMES)])
def test_the_model_is_what_the_parts_hold(seed: int) -> None:
    """Every part read whole by pyarrow, its updates added up: the oracle's rows are those that are stored."""
    made = make(seed, "small")
    shard = made.db.context.table("t")
    schema, state = shard.machine.fetch().schema, shard.machine.fetch()
    there, rows = made.model.snapshot()
    pieces, diffs = [there], [np.ones(rows, np.int64)]
    for part in parts_from_table(pa.concat_tables(state.parts.tables(PARTS_SCHEMA.names))):
        data = part.data or shard.machine.blob.get(part.name)
        assert data is not None
        columns, hidden = decode_part(part.name, data, schema, [column.id for column in schema.columns])
        pieces.append(columns)
        (packed,) = state.parts.deletions.bitmaps(PartRows.of([part]), NEVER, shard.machine.objects.get)
        visible = ~deletion_mask(packed, part.rows)
        diffs.append(-hidden.column("_diff").to_numpy() * visible)
    whole = [pa.concat_arrays(arrays) for arrays in zip(*pieces, strict=True)]
    groups = equal(whole, tuple(column.type for column in made.model.columns), len(whole[0]))
    sums = np.bincount(groups, np.concatenate(diffs))
    assert not sums.any(), "\n".join(made.story)
    made.db.close()


def run(size: Size, seed: int) -> None:
    """Some collections, and queries over them; and that they were worth asking."""
    collections, queries = SIZES[size]
    counts: Counter[str] = Counter()
    for number in range(collections):
        made = make(seed * 100 + number, size)
        made.db.set("audit", 1.0)
        asker = Asker(made, np.random.default_rng([seed, number, 7]))
        for _ in range(queries):
            ask(made, asker, counts, f"TIDEGATE_SEED={seed} TIDEGATE_READS=1 pytest {__file__} -k {size}")
        made.db.close()
    print(dict(counts))
    asked = counts["asked"]
    assert asked >= 0.7 * collections * queries, counts
    assert counts["rows"] >= (0.2 * asked if size != "groups" else 1), counts
    assert counts["fails"] <= 0.5 * asked, counts
    if size == "small":
        assert counts["fails"] >= 1, counts
        assert counts["pruned"] >= 0.1 * asked, counts
        assert counts["grouped"] >= 0.05 * asked, counts


def ask(made: Made, asker: Asker, counts: Counter[str], again: str) -> None:
    """One query under every setting."""
    asked, expected = worth(made, asker, counts)
    if expected is None:
        return
    with telling(made, asked, "", again):
        for name, flags in settings():
            with telling(made, asked, name, again):
                for flag, value in flags.items():
                    made.db.set(flag, value)
                result = compare(made, asked, expected)
                if name == "all on" and result is not None:
                    counts["rows"] += len(result) > 0
                    counts["pruned"] += result.scan.parts_read < result.scan.parts_total
                    counts[result.path] += 1
        for flag in FLAGS:
            made.db.set(flag, True)
        if asker.chance(0.1):
            with ThreadPoolExecutor(2) as pool, telling(made, asked, "twice at once", again):
                list(pool.map(lambda _: compare(made, asked, expected), range(2)))
    counts["asked"] += 1
    counts["grouped"] += asked.distinct or asked.grouping is not None
    counts["fails"] += expected.fails > 0


def worth(made: Made, asker: Asker, counts: Counter[str]) -> tuple[Question, Expected | None]:
    """A question that can be asked. One of which some row fails, or none passes, is mostly put aside: there are too many."""
    for _ in range(6):
        asked = asker.ask()
        try:
            expected = evaluate(made, asked)
        except (tidegate.UnsupportedError, tidegate.SqlError, tidegate.PlanError) as refused:
            counts[f"refused: {type(refused).__name__}"] += 1
            REFUSED.append(f"{asked.sql}\n{refused}")
            continue
        dull = expected.rows <= expected.offset or expected.limit == 0 or expected.rows > MANY
        if asker.chance(0.5 if expected.fails else 0.2 if dull else 1):
            return asked, expected
    return asked, None


REFUSED: list[str] = []


def compare(made: Made, asked: Question, expected: Expected) -> Result | None:
    """Asks, and looks at the answer; None: it is an error, and it must be."""
    try:
        result = made.db.sql(asked.sql)
    except tidegate.EvaluationError as error:
        expected.refused(error)
        return None
    expected.check(result)
    return result


@contextmanager
def telling(made: Made, asked: Question, setting: str, again: str) -> Iterator[None]:
    """Adds to whatever goes wrong how to see it again."""
    try:
        yield
    except BaseException as error:
        if not getattr(error, "__notes__", None):
            story = "\n  ".join(made.story)
            error.add_note(f"{setting}: {asked.sql}\nin the collection\n  {story}\nagain: {again}")
        raise
