"""How a question is answered: the cheapest path that gives exactly its rows.

    answer(question)             prunes parts, chooses a path, begins to answer; at the last row audits what was left out
    path_of(question, found)     which path that is, without answering: what EXPLAIN says

| path | when |
|---|---|
| metadata | LIMIT 0; nothing is left after pruning; aggregates that statistics tell (`metadata.py`) |
| peek | LIMIT, without ORDER BY (`peek.py`) or with it (`topk.py`): few parts, and little of them |
| local | everything else, in this process: rows (`local.py`), or groups of them (`aggregate.py`) |

The result is a stream (`stream.py`): what fits `READY` is there when `answer` returns, and then nothing runs any more.
A peek that gives more than that gives back its turn and goes on without one: whoever takes its rows slowly keeps nobody waiting.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from tidegate.expr.specs import Verdict
from tidegate.scan import aggregate, local, metadata, peek, topk
from tidegate.scan.audit import audited
from tidegate.scan.prune import Pruned, prune
from tidegate.scan.question import Question
from tidegate.scan.result import Path, Result, Scan, Stage
from tidegate.scan.stream import Batch, RowStream

READY = 16 << 20
"""Bytes of rows that are read before a result is handed out: smaller ones are complete by then."""


def answer(question: Question) -> Result:
    """The rows of the query, and what they cost."""
    if peek.suits(question):
        with question.turns.take(question.config.peeks_at_once, question.watch):
            found = peek.prune(question)
            scan = _counting(found)
            return _begun(question, found, scan, "peek", peek.stream(question, found, scan))
    began = time.perf_counter()
    found = prune(question.snapshot, question.plan, question.now, use=question.config.stats_filter)
    scan = _counting(found)
    scan.stages.append(Stage("prune", seconds=time.perf_counter() - began))
    if question.aggregation is not None:
        return _begun(question, found, scan, "local", aggregate.stream(question, found, scan))
    if topk.suits(question, found):
        with question.turns.take(question.config.peeks_at_once, question.watch):
            return _begun(question, found, scan, "peek", topk.stream(question, found, scan))
    return _begun(question, found, scan, "local", local.answer(question, found, scan))


def _counting(found: Pruned) -> Scan:
    return Scan(parts_total=found.total, bytes_total=found.size)


def _begun(question: Question, found: Pruned, scan: Scan, path: Path, rows: Iterator[Batch]) -> Result:
    """The result of a stream that has begun; if no part had to be read for it, metadata answered."""
    weigh(question, found, scan)
    types, most = question.result_types, question.config.max_result_bytes
    stream = RowStream(_audited(question, found, scan, path, rows), question.watch)
    stream.fill(min(READY, most) if most else READY)
    return Result(
        question.names, types, stream, path if scan.parts_read else "metadata", scan, max_bytes=most
    )


def _audited(
    question: Question, found: Pruned, scan: Scan, path: Path, rows: Iterator[Batch]
) -> Iterator[Batch]:
    """The columns of the result; behind its last row, some of the parts that were left out are looked into."""
    many = len(question.names)
    for columns, count in rows:
        scan.rows_returned += count
        yield columns[:many], count
    audited(question, found, scan, peek=path == "peek")


def path_of(question: Question, found: Pruned) -> Path:
    """How `answer` would answer."""
    if question.shape.limit == 0:
        return "metadata"
    told = metadata.tell(question, found)
    if not (found if told is None else told.rest).left:
        return "metadata"
    return "peek" if peek.suits(question) or topk.suits(question, found) else "local"


def weigh(question: Question, found: Pruned, scan: Scan) -> None:
    """Notes how many parts and bytes statistics left out, and of how many they prove that every row passes."""
    if found.verdicts is None:
        return
    sizes = question.snapshot.table(["size"]).column("size").to_numpy()[: len(found.verdicts.verdict)]
    none, whole = (found.verdicts.verdict == verdict for verdict in (Verdict.NONE, Verdict.ALL))
    scan.parts_pruned, scan.bytes_pruned = int(np.count_nonzero(none)), int(sizes[none].sum())
    scan.parts_proven, scan.bytes_proven = int(np.count_nonzero(whole)), int(sizes[whole].sum())
