"""The least work for the same plan.

A plan means its normal form (`mfp.py`): conditions and outputs over the inputs. `optimised` writes that form
anew, in three steps, and so forgets everything about how the plan came to be:

1. conditions and outputs are simplified (`expr/simplify.py`), conditions freed of repetitions and sorted by
   cost, then by their words, so that plans with the same meaning are equal more often; one that is the
   constant False stands for all;
2. an expression becomes a map column if it leaves the plan or is used at least twice (memoised), and stands
   inside its only user otherwise (inlined);
3. what neither a condition nor an output uses is not there any more.

    Map #0 -> 'f', #1 -> 'x', #0 -> 'f', #3 -> 'y', 1 / #2           Map #0 -> 'f', #1 -> 'x', #1 -> 'y'
    Project (#2, #4)                                            →    Project (#2, #3)

None of this changes which rows leave or fail: AND does not depend on order, an error in an unused column is
no error by definition, and a condition or output has the same value and the same error wherever its
subexpressions are computed. In particular a subexpression may be lifted out of a CASE branch: its errors are
seen only through the branch that uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import assert_never

from tidegate.expr.build import conjunction, conjuncts
from tidegate.expr.function import NEVER
from tidegate.expr.simplify import simplified
from tidegate.expr.tree import FALSE, TRUE, Call, Column, Expr, Literal, Now, walk
from tidegate.plan.mfp import MapFilterProject


def optimised(mfp: MapFilterProject) -> MapFilterProject:
    """The plan that means the same and does least; optimising it again changes nothing."""
    condition = simplified(conjunction(mfp.conditions))
    return rebuild(mfp, ordered(conjuncts(condition)), [simplified(output) for output in mfp.outputs])


def ordered(conditions: Iterable[Expr]) -> tuple[Expr, ...]:
    """The conditions once each, the cheapest first; only False if that is one of them."""
    distinct = dict.fromkeys(condition for condition in conditions if condition != TRUE)
    if FALSE in distinct:
        return (FALSE,)
    if len(distinct) < 2:
        return tuple(distinct)
    return tuple(sorted(distinct, key=lambda condition: (cost(condition), _words(condition))))


def _words(condition: Expr) -> list[str]:
    """Something to sort by, whatever order the conditions were written in; `show` would be far dearer."""
    words = []
    for node in walk(condition):
        match node:
            case Column(index):
                words.append(f"#{index}")
            case Literal(value):
                words.append(str(value))
            case Now():
                words.append("mz_now()")
            case Call(function):
                words.append(function.name)
            case _:
                assert_never(node)
    return words


def cost(*exprs: Expr) -> int:
    """What a row costs, common subexpressions counted once."""
    return sum(int(node.function.cost) for node in walk(*exprs) if isinstance(node, Call))


def may_fail(*exprs: Expr) -> bool:
    """Whether some function in `exprs` can fail on some row, by its declaration alone."""
    return any(isinstance(node, Call) and node.function.errors is not NEVER for node in walk(*exprs))


def rebuild(mfp: MapFilterProject, conditions: Sequence[Expr], outputs: Sequence[Expr]) -> MapFilterProject:
    """A plan over the inputs of `mfp` with these conditions and outputs; what is shared gets a column."""
    calls = [output for output in outputs if not isinstance(output, Column)]  # most outputs are columns
    columns = _columns(conditions, calls)
    made: list[Expr] = []
    done: dict[Expr, Expr] = {}
    for node in walk(*conditions, *calls):
        new: Expr = node
        if isinstance(node, Call):
            args = tuple(done[arg] for arg in node.args)
            new = node if args == node.args else Call(node.function, args, node.type)
        if node in columns:
            made.append(new)
            new = Column(len(mfp.inputs) + len(made) - 1, node.type)
        done[node] = new
    return MapFilterProject(
        mfp.inputs,
        tuple(made),
        tuple(done[condition] for condition in conditions),
        tuple(_index(output if isinstance(output, Column) else done[output]) for output in outputs),
    )


def _columns(conditions: Sequence[Expr], outputs: Sequence[Expr]) -> set[Expr]:
    """The expressions that get a column of their own; `outputs` are those that are none already.

    What holds `mz_now()` stays whole, so that `mz_now() <= #3` can be read as a bound; it costs next to
    nothing.
    """
    nodes = list(walk(*conditions, *outputs))
    uses = Counter(arg for node in nodes if isinstance(node, Call) for arg in node.args)
    uses.update(conditions)
    temporal: set[Expr] = set()
    for node in nodes:
        if isinstance(node, Now) or (isinstance(node, Call) and not temporal.isdisjoint(node.args)):
            temporal.add(node)
    shared = {node for node in nodes if isinstance(node, Call) and uses[node] > 1 and node not in temporal}
    return {*shared, *outputs}


def _index(output: Expr) -> int:
    assert isinstance(output, Column)
    return output.index
