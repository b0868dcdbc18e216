"""Audit: a share of the parts that statistics left out is read all the same, and must yield nothing.

    rows = …                                the answer is there
    audited(question, found, scan)          raises if a part was left out that should not have been

NONE promises that no row of a part passes the conditions and none fails in them. That promise rests on the statistics, which some
version of Tidegate collected, and on what each function claims of itself. A lie in either is rows silently missing; so now and
then the promise is put to the rows themselves, by the evaluation that would have read them. What is found wrong makes the query
fail with the part's name: better no answer than a wrong one.

| setting `audit` | parts that are read again |
|---|---|
| 0 | none |
| 0.01, the default | one in a hundred of the parts left out, but on average no more than a tenth of those that were read |
| 1 | every part left out, always, whatever it costs: for tests |

Of 365 parts 30 are read and 335 left out: 1 % of 1 + 10 · 30 is 3.01, so 3 are audited, and once in a hundred times 4. Of a point
look-up that reads one part it is 0.11: one part, in one query of nine. Where nothing was read it is one part in one query of a
hundred. There is a ceiling too: `MOST_PARTS` parts, of a peek one, and about `MOST_BYTES`. Only the columns of the conditions
are read.

Rows are asked one by one, each update by itself. That is right where rows are retracted too: the promise is about every row of the
part, whether or not its diffs cancel out in the end. A part that cannot be read at all proves nothing against its
statistics and was not needed for the answer: it is logged, and the query is answered.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tidegate.errors import EvaluationError, StoreError
from tidegate.expr.show import show
from tidegate.expr.specs import Verdict
from tidegate.plan.verdict import Verdicts
from tidegate.scan.late import Staged
from tidegate.scan.lie import CHANCE, AuditError
from tidegate.scan.prune import Pruned
from tidegate.scan.question import Question
from tidegate.scan.result import Scan, Stage
from tidegate.shard.change import Part

MOST_PARTS = 8
MOST_BYTES = 16 << 20
"""What one query audits at most, unless all is to be audited: no further part is begun beyond these bytes."""
BESIDE = 10
"""Parts left out that may be audited, at a share of 1, for each part that was read."""
AT_ONCE = 1024
_LOG = logging.getLogger(__name__)


def audited(question: Question, found: Pruned, scan: Scan, *, peek: bool = False) -> None:
    """Reads some of the parts that were left out, and raises if one holds what the query asks for."""
    if found.verdicts is None or not question.config.audit:
        return
    dropped = np.flatnonzero(found.verdicts.verdict == Verdict.NONE)
    share, most = question.config.audit, 1 if peek else MOST_PARTS
    places = sample(len(dropped), scan.parts_read, share, CHANCE, most)
    if not len(places):
        return
    asked = _asked(question)
    with scan.stage("audit") as stage:
        for place, part in _picked(question, dropped[places]):
            if share < 1 and scan.bytes_audited >= MOST_BYTES:
                break
            passing = _passing(asked, part, stage)
            if passing is None:
                continue
            if passing:
                raise _lie(part, found.verdicts, place)
            scan.parts_audited += 1
            scan.bytes_audited = stage.bytes


def sample(
    dropped: int, read: int, share: float, chance: random.Random, most: int = MOST_PARTS
) -> np.ndarray:
    """Which of the parts left out are audited, rising; see the table above."""
    if share >= 1:
        return np.arange(dropped)
    whole, rest = divmod(share * min(dropped, 1 + BESIDE * read), 1)
    many = int(whole) + (chance.random() < rest)
    return np.array(sorted(chance.sample(range(dropped), min(many, most, dropped))), np.int64)


def _picked(question: Question, places: np.ndarray) -> Iterator[tuple[int, Part]]:
    """The parts at these places, as values: some at a time, should there be a million."""
    for some in np.split(places, range(AT_ONCE, len(places), AT_ONCE)):
        yield from zip(some.tolist(), question.snapshot.pick(some), strict=True)


def _asked(question: Question) -> Question:
    """The conditions alone, of every row: pages are not passed over, as their statistics may lie too."""
    config = replace(question.config, stats_filter=False)
    return replace(question, plan=question.plan.project(()), config=config)


def _passing(question: Question, part: Part, stage: Stage) -> bool | None:
    """Whether a row of a part passes the conditions or fails in them; None if it cannot be read."""
    scan = Scan()
    try:
        read = Staged(question, scan, question.plan, []).read(part, proven=False)
        return any(taken.rows for taken in read)
    except EvaluationError:
        return True
    except StoreError as error:
        said = {"event": "audit_unreadable", "part": part.name, "error": type(error).__name__}
        _LOG.warning("an audited part cannot be read", extra={"tidegate": said})
        return None
    finally:
        stage.rows_in += scan.rows_read
        stage.bytes += scan.bytes_read


def _lie(part: Part, verdicts: Verdicts, place: int) -> AuditError:
    """What was found out, in the log without the query's constants, and as an error with them."""
    blamed = [condition for condition, each in verdicts.by_condition if each[place] == Verdict.NONE]
    conditions = [show(condition) for condition in blamed or [c for c, _ in verdicts.by_condition]]
    _LOG.error("statistics are wrong", extra={"tidegate": {"event": "audit_failed", "part": part.name}})
    return AuditError(
        f"the statistics of {part.name} are wrong: by them no row passes {' AND '.join(conditions)} or fails in it, and one does",
        part=part.name,
        hint="SET stats_filter = off reads every part; please report this with the part, other queries may lack rows too",
    )
