"""How a question is answered: the cheapest path that gives exactly its rows.

    answer(question)             prunes parts, chooses a path, answers, audits what was left out
    path_of(question, found)     which path that is, without answering: what EXPLAIN says

| path | when |
|---|---|
| metadata | LIMIT 0; nothing is left after pruning; aggregates that statistics tell (`metadata.py`) |
| peek | LIMIT, without ORDER BY (`peek.py`) or with it (`topk.py`): few parts, and little of them |
| local | everything else, in this process: rows (`local.py`), or groups of them (`aggregate.py`) |
"""

from __future__ import annotations

import time

import numpy as np

from tidegate.expr.specs import Verdict
from tidegate.scan import aggregate, local, metadata, peek, topk
from tidegate.scan.audit import audited
from tidegate.scan.prune import Pruned, prune
from tidegate.scan.question import Question
from tidegate.scan.result import Path, Result, Scan, Stage


def answer(question: Question) -> Result:
    """The rows of the query, and what they cost."""
    if peek.suits(question):
        with question.turns.take(question.config.peeks_at_once, question.watch):
            result, found = peek.run(question)
    else:
        began = time.perf_counter()
        found = prune(question.snapshot, question.plan, question.now, use=question.config.stats_filter)
        pruning = Stage("prune", seconds=time.perf_counter() - began)
        result = _run(question, found)
        result.scan.stages.insert(0, pruning)
    weigh(question, found, result.scan)
    audited(question, found, result.scan, peek=result.path == "peek")
    return result


def _run(question: Question, found: Pruned) -> Result:
    if question.aggregation is not None:
        return aggregate.run(question, found)
    if topk.suits(question, found):
        with question.turns.take(question.config.peeks_at_once, question.watch):
            return topk.run(question, found)
    return local.run(question, found)


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
