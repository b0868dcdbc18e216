"""Chooses which columns and conditions of a filter are read first: late materialisation (seed 004).

    chosen = choose(conditions, weight={0: 8, 1: 80, 2: 300}, demand={0, 1, 2}, selectivity=estimates.selectivity)
    chosen.stages     read these columns, ask these conditions, and go on with the rows that are still open
    chosen.rest       the Selection above the scan
    chosen.skipped    each of them, and why it is not asked earlier: for EXPLAIN

A part is read in **stages**. A stage reads its columns for the rows that the stages before left open, and asks its conditions;
after the last one the remaining columns are read, again for open rows only, and `rest` is asked of them. Nobody here knows
parts or statistics: bytes and selectivities are handed in. Of `SELECT * FROM hits WHERE url LIKE '%google%' AND id < 70 AND
payload ->> 'k' = 'v'` over 60 columns of 888 bytes a row:

| group | bytes | passes | bytes read, with it as the next stage | |
|---|---|---|---|---|
| none | – | 1 | 888 | |
| `id < 70` | 8 | 0.5 | 8 + 0.5 · 880 = 448 | stage 1 |
| `url LIKE …` | 80 | 0.1 | 8 + 0.5 · 80 + 0.05 · 800 = 88 | stage 2 |
| `payload ->> …` | 300 | 0.1 | 8 + 40 + 0.05 · 300 + 0.005 · 500 = 66 | stage 3: heavy, so last |

The seed's rules, and what became of them:

- **Grouped by columns**: conditions that read exactly the same columns are one group, and pushed together or not at all. A
  light condition whose columns have all been read goes with that stage, since it costs nothing. Groups that merely share a
  column stay apart: joining `a > 1` to `a = length(payload)` would make the cheapest condition wait for the widest column.
- **Sorted** by bytes read for each row dropped, `bytes / (1 - selectivity)`: the seed's order by selectivity, weighed by bytes.
  For independent conditions no order reads less.
- **Income** is the bytes that need not be read. The seed counts `(1 - selectivity) · rest`, as for one stage; here later stages
  profit from earlier ones, so it is `total - (b1 + s1·b2 + s12·b3 + … + s·rest)`, which for one stage is the seed's.
- **Improvement**: a stage must save `MIN_IMPROVEMENT` of the bytes that would be read without it. In the seed's loop the last test
  subtracts the selectivity from itself where a group was taken, and so ends after the first one. It means the improvement *over
  what was selected before*; that is compared here. And a group that gains too little is passed over, it does not end the
  search: in our order a wider and sharper one may follow.
- **Too many columns**, counted in bytes: `MAX_SHARE_ONE_COLUMN`, `MAX_SHARE_SEVERAL_COLUMNS`. The columns of a filter must be
  read in any case, so a wide one is not expensive by itself (the seed's own example is LIKE on the widest column of its query);
  but there must be something left to save.
- **Heavy functions** (`Cost.HEAVY`, wherever in the tree) come last, after all that is cheap: they are never asked of a row
  that a light stage drops. The seed leaves them above the scan. Here they may be the last stages, if income grows by that: JSON
  that passes one row in a thousand spares the other columns of the rest. Light conditions that gained too little alone then go
  with the first heavy stage, and are asked before it.

**The order never changes a result.** A stage drops only rows of which the AND is surely False. Where it is NULL or an error so
far, the row stays open until all conditions are asked, because False beats both; so neither errors nor their messages depend on
what is chosen here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.expr.model import Call, Cost, Expr, show, support, walk

MIN_IMPROVEMENT = 0.1
"""The share of the bytes still to be read that a stage must save. A stage is one more round trip, and skipping inside a
column costs about a tenth more CPU than reading it in one go (research/latemat.md C3: 1058 against 928 ms, 10 % of the rows)."""
MAX_SHARE_ONE_COLUMN = 0.75
"""The share of all bytes that a group of one column may read. Above it even a perfect filter saves less than a quarter,
and one that keeps a row in each page saves nothing."""
MAX_SHARE_SEVERAL_COLUMNS = 0.25
"""The same for a group of several columns: the seed's figure. No statistic is kept about columns together, so the selectivity
of such a condition is a guess, and a guess should not decide over more."""

_GAINS_TOO_LITTLE = "gains too little"

SelectivityEstimate = Callable[[Sequence[Expr]], float]
"""About which share of the rows passes all of these conditions."""


@dataclass(frozen=True)
class ReadStage:
    """Columns that are read together, and the conditions that are then asked."""

    conditions: tuple[Expr, ...]
    columns: tuple[int, ...]
    """Those that no stage before has read, rising; none for conditions without columns."""
    selectivity: float
    """About which share of all rows passes this stage and those before."""
    share: float
    """Of all bytes, which its columns make up."""
    income: float
    """About which share of all bytes need not be read, thanks to this stage and those before."""
    heavy: bool = False
    """Whether it holds a heavy function: such stages are the last ones."""

    def show(self, names: Sequence[str] | None = None) -> str:
        """One line: `url LIKE '%google%' (reads 9 % of the bytes, leaves 10 % of the rows)`."""
        words = " AND ".join(_operand(condition, names) for condition in self.conditions)
        return f"{words} (reads {_percent(self.share)} of the bytes, leaves {_percent(self.selectivity)} of the rows)"


@dataclass(frozen=True)
class SkippedCondition:
    """A condition that waits for all columns, and why."""

    condition: Expr
    reason: str

    def show(self, names: Sequence[str] | None = None) -> str:
        """One line: `payload ->> 'k' = 'v' (heavy function ->>)`."""
        return f"{_operand(self.condition, names)} ({self.reason})"


@dataclass(frozen=True)
class StagePlan:
    """Every condition once: in a stage, or in the rest."""

    stages: tuple[ReadStage, ...]
    skipped: tuple[SkippedCondition, ...]
    """In the order in which they were given."""

    @property
    def rest(self) -> tuple[Expr, ...]:
        """The conditions of the Selection above the scan."""
        return tuple(skipped.condition for skipped in self.skipped)

    @property
    def pushed(self) -> tuple[Expr, ...]:
        """The conditions that the scan asks, in the order of the stages."""
        return tuple(condition for stage in self.stages for condition in stage.conditions)

    @property
    def selectivity(self) -> float:
        """About which share of the rows is left by the stages; 1 without any."""
        return self.stages[-1].selectivity if self.stages else 1.0

    @property
    def income(self) -> float:
        """About which share of the bytes need not be read."""
        return self.stages[-1].income if self.stages else 0.0

    def show(self, names: Sequence[str] | None = None) -> list[str]:
        """A line for each stage and each condition above."""
        pushed = [f"pushed down filter: {stage.show(names)}" for stage in self.stages]
        return pushed + [f"selection: {skipped.show(names)}" for skipped in self.skipped]


@dataclass(frozen=True)
class _Group:
    """Conditions that read the same columns, all light or all heavy."""

    conditions: tuple[Expr, ...]
    columns: frozenset[int]
    heavy: bool


@dataclass
class _Choice:
    """What is chosen so far, on the way to `StagePlan`."""

    weight: Mapping[int, float]
    demand: frozenset[int]
    selectivity: SelectivityEstimate
    stages: list[ReadStage] = field(default_factory=list)
    read: frozenset[int] = frozenset()
    spent: float = 0.0
    """Bytes a row that the stages read, those of later stages weighed by the rows left."""

    @property
    def total(self) -> float:
        return _bytes(self.weight, self.demand)

    @property
    def passing(self) -> float:
        return self.stages[-1].selectivity if self.stages else 1.0

    def chosen_conditions(self) -> list[Expr]:
        return [condition for stage in self.stages for condition in stage.conditions]

    def open(self, groups: Iterable[_Group]) -> list[_Group]:
        """Those that no stage has taken along."""
        asked = set(self.chosen_conditions())
        return [group for group in groups if asked.isdisjoint(group.conditions)]

    def share(self, columns: Iterable[int]) -> float:
        """Which share of all bytes these columns are."""
        return _bytes(self.weight, columns) / self.total if self.total > 0 else 0.0

    def too_wide(self, columns: frozenset[int]) -> bool:
        new = columns - self.read
        return self.share(new) > (MAX_SHARE_ONE_COLUMN if len(new) <= 1 else MAX_SHARE_SEVERAL_COLUMNS)

    def offer(self, conditions: tuple[Expr, ...], columns: frozenset[int], *, heavy: bool) -> bool:
        """Makes a stage of these if that saves enough; whether it did."""
        new = columns - self.read
        spent = self.spent + self.passing * _bytes(self.weight, new)
        after = min(self.passing, _fraction(self.selectivity([*self.chosen_conditions(), *conditions])))
        left = _bytes(self.weight, self.demand - self.read)
        cost_before = self.spent + self.passing * left
        cost_after = spent + after * _bytes(self.weight, self.demand - self.read - new)
        if cost_before - cost_after <= MIN_IMPROVEMENT * cost_before:
            return False
        income = (self.total - cost_after) / self.total
        self.stages.append(ReadStage(conditions, tuple(sorted(new)), after, self.share(new), income, heavy))
        self.read, self.spent = self.read | new, spent
        return True


def choose_stages(
    conditions: Sequence[Expr],
    weight: Mapping[int, float],
    demand: Iterable[int],
    selectivity: SelectivityEstimate,
) -> StagePlan:
    """Divides the conditions of a filter (over the collection's columns) into stages and a rest.

    `weight`: by column, its bytes (a row or in all, only their proportion matters). `demand`: all columns that the plan
    reads, those of its conditions included.
    """
    every = frozenset(demand) | support(*conditions)
    choice = _Choice({column: max(0.0, weight[column]) for column in every}, every, selectivity)
    groups = _grouped(conditions)
    why: dict[Expr, str] = {}
    passed = _light(choice, [group for group in groups if not group.heavy], why)
    _heavy(choice, [group for group in groups if group.heavy], passed, why)
    pushed = set(choice.chosen_conditions())
    skipped = tuple(SkippedCondition(c, why[c]) for c in dict.fromkeys(conditions) if c not in pushed)
    return StagePlan(tuple(choice.stages), skipped)


def heavy_functions(condition: Expr) -> list[str]:
    """The names of the heavy functions in a condition, wherever they stand."""
    calls = (node for node in walk(condition) if isinstance(node, Call))
    return sorted(
        {call.function.name for call in calls if call.function.cost >= Cost.HEAVY and support(call)}
    )


def _grouped(conditions: Iterable[Expr]) -> list[_Group]:
    """Groups the distinct conditions by columns and weight. A heavy function of constants is light."""
    groups: dict[tuple[frozenset[int], bool], list[Expr]] = {}
    for condition in dict.fromkeys(conditions):
        key = support(condition), bool(heavy_functions(condition))
        groups.setdefault(key, []).append(condition)
    return [_Group(tuple(found), columns, heavy) for (columns, heavy), found in groups.items()]


def _light(choice: _Choice, groups: Sequence[_Group], why: dict[Expr, str]) -> list[_Group]:
    """Makes stages of light groups; those that gain too little, or are too wide, are given back."""
    waiting, passed = _ranked(choice, groups), list[_Group]()
    while waiting:
        group = waiting.pop(0)
        free = _free([*waiting, *passed], choice.read | group.columns)
        if choice.too_wide(group.columns):
            why.update(dict.fromkeys(group.conditions, _wide(choice, group)))
            passed.append(group)
        elif not choice.offer((*group.conditions, *free), group.columns, heavy=False):
            why.update(dict.fromkeys(group.conditions, _GAINS_TOO_LITTLE))
            passed.append(group)
        waiting, passed = choice.open(waiting), choice.open(passed)
    return passed


def _heavy(choice: _Choice, groups: Sequence[_Group], passed: list[_Group], why: dict[Expr, str]) -> None:
    """Makes the last stages of heavy groups; light ones that gained too little go with the first of them."""
    for group in _ranked(choice, groups):
        little = [other for other in passed if why[other.conditions[0]] == _GAINS_TOO_LITTLE]
        columns = group.columns.union(*(other.columns for other in little))
        free = _free(passed, choice.read | columns)
        if choice.too_wide(group.columns):
            why.update(dict.fromkeys(group.conditions, _wide(choice, group)))
        elif not choice.offer((*free, *group.conditions), columns, heavy=True):
            for condition in group.conditions:
                why[condition] = f"heavy function {', '.join(heavy_functions(condition))}"
        passed = choice.open(passed)


def _free(groups: Iterable[_Group], read: frozenset[int]) -> tuple[Expr, ...]:
    """The conditions for which nothing more need be read."""
    return tuple(condition for group in groups if group.columns <= read for condition in group.conditions)


def _ranked(choice: _Choice, groups: Sequence[_Group]) -> list[_Group]:
    """By the bytes that are read for each row dropped; those that drop nothing last, the narrowest first."""

    def rank(group: _Group) -> tuple[float, float]:
        size = _bytes(choice.weight, group.columns - choice.read)
        dropped = 1 - _fraction(choice.selectivity(group.conditions))
        return (size / dropped if dropped > 0 else math.inf), size

    return sorted(groups, key=rank) if len(groups) > 1 else list(groups)


def _wide(choice: _Choice, group: _Group) -> str:
    return f"reads {_percent(choice.share(group.columns - choice.read))} of the bytes"


def _bytes(weight: Mapping[int, float], columns: Iterable[int]) -> float:
    return math.fsum(weight[column] for column in columns)


def _fraction(given: float) -> float:
    """An estimate brought to 0 .. 1; one that is no number drops nothing."""
    return 1.0 if math.isnan(given) else min(1.0, max(0.0, given))


def _percent(share: float) -> str:
    percent = 100 * share
    if percent >= 1 or percent == 0:
        return f"{percent:.0f} %"
    return f"{percent:.2g} %" if percent >= 0.001 else "< 0.001 %"


def _operand(condition: Expr, names: Sequence[str] | None) -> str:
    text = show(condition, names)
    return f"({text})" if isinstance(condition, Call) and condition.function.name == "or" else text
