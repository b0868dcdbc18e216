"""Plans as people read them: the text of EXPLAIN, from values that others have computed.

A query over one collection is a chain of steps, the last one first:

    Finish  order by at desc limit 10
    └─ Project  id, price * 2 AS double
       └─ Selection  payload ->> 'kind' = 'x'                                                est 120 rows
          └─ Scan orders  as of 1234   pushed down filter: url LIKE '%google%'   path: local
               columns: first url; then id, price, payload
               parts: 12 of 365 kept, 4 proven whole; bytes: 1.2 MB of 40 MB

| step | what it does |
|---|---|
| Scan | reads the parts that are left; its `pushed down filter:` is asked first, of as few columns as it needs |
| Selection | the conditions that wait until all columns are there |
| Aggregate | rows become groups: one value of each aggregate for each key |
| Project | what leaves |
| Finish | order and limits |

`tree` puts steps on lines of at most `WIDTH` characters: an item that does not fit beside the others goes below them, and is
folded at spaces. Columns have their names, never numbers.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.expr.model import Call, Expr, show
from tidegate.plan.aggregate import Aggregate, Aggregation
from tidegate.text import identifier

WIDTH = 100
MAX_SHOWN_OUTPUTS = 30
"""Outputs that are shown by their expression; further ones are counted."""
PUSHED = "pushed down filter:"
"""The words to look for in an explanation."""


@dataclass(frozen=True)
class Step:
    """One step of a plan."""

    name: str
    items: tuple[str, ...] = ()
    """What is said beside the name."""
    rows: str = ""
    """How many rows leave it, at the right."""
    notes: tuple[str, ...] = ()
    """Lines below; one that begins with spaces is indented by them."""


def tree(steps: Sequence[Step]) -> str:
    """The chain of steps, the last one first."""
    lines: list[str] = []
    for depth, step in enumerate(steps):
        lines += step_lines(step, "   " * (depth - 1) + "└─ " if depth else "", "   " * depth + "  ")
    return "\n".join(lines)


def step_lines(step: Step, prefix: str, below: str) -> list[str]:
    """The lines of one step; `prefix` stands before the first, `below` before the others."""
    head, items, notes = f"{prefix}{step.name}", [_line(item) for item in step.items], list(step.notes)
    room = WIDTH - (len(step.rows) + 2 if step.rows else 0)
    if len(items) == 1 and len(head) + 2 + len(items[0]) > room:
        first, *more = _wrapped(f"{step.name}  {items.pop()}", prefix, below)
        return [first, *more, *([below + step.rows] if step.rows else []), *_folded(notes, below)]
    gap = "  "
    while items and len(head) + len(gap) + len(items[0]) <= room:
        head, gap = head + gap + items.pop(0), "   "
    if step.rows:
        head = head.ljust(WIDTH - len(step.rows)) + step.rows
    return [head, *_folded([*items, *notes], below)]


def _folded(texts: Iterable[str], indent: str) -> list[str]:
    return [line for text in texts for line in fold(text, indent)]


def fold(text: str, indent: str) -> list[str]:
    """A text on lines of at most `WIDTH`, broken at spaces, the later ones indented further."""
    inner = indent + " " * (len(text) - len(text.lstrip()))
    return _wrapped(text.strip(), inner, inner + "  ")


_GLUED = re.compile(r"(?:->>? )?'(?:[^']|'')*'| \.\. ")
"""Where a line is not broken: inside of a constant, between two bounds, between an arrow and its key."""


def _line(text: str) -> str:
    """A text on one line, whatever its constants hold."""
    return " ".join(text.splitlines())


def _wrapped(text: str, first: str, later: str) -> list[str]:
    glued = _GLUED.sub(lambda hit: hit[0].replace(" ", "\0"), _line(text))
    lines = textwrap.wrap(
        glued,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


# ---------------------------------------------------------------- steps


def finish(keys: Sequence[str], limit: int | None, offset: int) -> list[Step]:
    """ORDER BY, LIMIT and OFFSET, if there are any; a key is a text such as `at desc`."""
    said = [f"order by {', '.join(keys)}"] if keys else []
    said += [f"limit {limit}"] if limit is not None else []
    said += [f"offset {offset}"] if offset else []
    return [Step("Finish", (" ".join(said),))] if said else []


def key(text: str, *, descending: bool, nulls_first: bool) -> str:
    """A key to sort by, as ORDER BY writes it: what is the default goes without saying."""
    nulls = "" if nulls_first == descending else f" nulls {'first' if nulls_first else 'last'}"
    return text + (" desc" if descending else "") + nulls


def project(outputs: Sequence[Expr], labels: Sequence[str], names: Sequence[str] | None) -> Step:
    """What leaves, with the names that are not those of the expressions."""
    shown = [
        output(one, label, names) for one, label in zip(outputs[:MAX_SHOWN_OUTPUTS], labels, strict=False)
    ]
    more = min(len(outputs), len(labels)) - len(shown)
    return Step("Project", (", ".join([*shown, *([f"… {more} more"] if more else [])]) or "nothing",))


def output(expr: Expr, label: str, names: Sequence[str] | None) -> str:
    """An expression AS what it is called, unless that says nothing new."""
    text = show(expr, names)
    told = label == "?column?" or identifier(label) == text or text.startswith(f"{label}(")
    return text if told else f"{text} AS {identifier(label)}"


def selection(conditions: Iterable[Expr], names: Sequence[str] | None, rows: str = "") -> list[Step]:
    """Conditions that are asked when all columns are there, if there are any."""
    text = conjoined(conditions, names)
    return [Step("Selection", (text,), rows)] if text else []


def conjoined(conditions: Iterable[Expr], names: Sequence[str] | None) -> str:
    """Conditions, joined by AND."""
    return " AND ".join(operand(condition, names) for condition in conditions)


def operand(condition: Expr, names: Sequence[str] | None) -> str:
    """A condition as it stands beside AND."""
    text = show(condition, names)
    return f"({text})" if isinstance(condition, Call) and condition.function.name == "or" else text


def aggregate(
    found: Aggregation, below: Sequence[Expr], labels: Sequence[str], names: Sequence[str]
) -> list[Step]:
    """The steps of an aggregation, the last first; `below`: keys and arguments, `labels`: output names."""
    inner = called_apart(found.labels)
    steps = [] if found.distinct is None else [Step("Distinct")]
    if not found.above.is_identity:
        steps.append(project(found.above.outputs[: len(labels)], labels, inner))
        steps += selection(found.above.conditions, inner)
    keys = [output(expr, label, names) for expr, label in zip(below[: found.keys], inner, strict=False)]
    values = [
        f"{_computed(one, below, names)} AS {identifier(label)}"
        for one, label in zip(found.aggregates, inner[found.keys :], strict=True)
    ]
    said = [", ".join(values)] if values else []
    said += [f"group by {', '.join(keys)}"] if keys else []
    return [*steps, Step("Aggregate", (" ".join(said),) if said else ())]


def _computed(one: Aggregate, below: Sequence[Expr], names: Sequence[str]) -> str:
    inside = "*" if one.column is None else show(below[one.column], names)
    return f"{one.kind}({'distinct ' if one.distinct else ''}{inside})"


def called_apart(labels: Sequence[str]) -> list[str]:
    """Names of which no two are the same: a second `sum` is `sum_2`."""
    seen: Counter[str] = Counter()
    apart = []
    for label in labels:
        seen[label] += 1
        apart.append(label if seen[label] == 1 else f"{label}_{seen[label]}")
    return apart


# ---------------------------------------------------------------- amounts


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Columns of texts: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        (
            indent
            + "  ".join(
                [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
            )
        ).rstrip()
        for row in [head, *rows]
    ]
