"""How a question is answered: the cheapest path that gives exactly its rows.

    answer(question)      prunes parts, then chooses

| path | when |
|---|---|
| metadata | LIMIT 0; nothing is left after pruning |
| local | everything else, in this process |
"""

from __future__ import annotations

from tidegate.scan import local
from tidegate.scan.prune import prune
from tidegate.scan.question import Question
from tidegate.scan.result import Result


def answer(question: Question) -> Result:
    """The rows of the query, and what they cost."""
    found = prune(question.snapshot, question.plan, question.now, use=question.config.stats_filter)
    return local.run(question, found)
