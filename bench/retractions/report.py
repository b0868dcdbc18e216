"""The report of `bench.retractions`: which answers stay within their limits, and the tables.

A line is one question of one group, such as `db.sql` on files with 50 parts and scattered changes. Its first cell is the
append-only collection, by which each other cell is judged:

    append-only 5.0 ms    1 % changed 5.6 ms (1.12×)    50 % changed **9.0 ms (1.80×)**    bold: beyond the limit

A change of more than 10 % has no limit before compaction; it is shown, and not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

COPY = "unchanged copy"
BEFORE, AFTER, MORE_MS, MOST_SHARE, FLAT = 1.2, 1.05, 2.0, 0.1, 1.5
"""Limits: ratios before and after compaction, ms for LIMIT, the greatest share that has a limit before, and LIMIT's growth."""
WORST = 10
ON_SPARK = "db.table"
OURS = ("db.sql", ON_SPARK)

Line = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """The median of one question on one collection, or why there is none."""

    label: str
    compacted: bool
    ms: float | None
    note: str = ""

    def show(self) -> str:
        """The time, or what happened instead."""
        return self.note or f"{self.ms:.1f}"


def share_of(label: str) -> float | None:
    """The share that was changed; None if nothing was."""
    if label.endswith(" %"):
        return float(label[:-2]) / 100
    return 0.0 if label == "1 row" else None


def is_within(line: Line, cell: Line) -> bool:
    """Whether a cell stays within its limit."""
    base, ms = line["cells"][0]["ms"], cell["ms"]
    if base is None or ms is None:
        return False
    if cell["compacted"]:
        return bool(ms <= AFTER * base)
    if line["is_limit"] and line["engine"] != ON_SPARK:
        return bool(ms <= base + MORE_MS)
    return bool(ms <= BEFORE * base)


def is_judged(cell: Line) -> bool:
    """Whether a cell has a limit: a change that is small enough, or compacted."""
    share = share_of(cell["label"])
    return share is not None and (cell["compacted"] or share <= MOST_SHARE)


# ---------------------------------------------------------------- counting


def counts(lines: Iterable[Line]) -> Counter[tuple[str, bool, bool]]:
    """How many cells there are by (changed or copy, compacted, within their limit)."""
    found: Counter[tuple[str, bool, bool]] = Counter()
    for line in lines:
        for cell in line["cells"][1:]:
            if cell["label"] == COPY or is_judged(cell):
                name = COPY if cell["label"] == COPY else "changed"
                found[name, cell["compacted"], is_within(line, cell)] += 1
    return found


def count_line(name: str, lines: list[Line]) -> str:
    """One line of the summary."""
    found = counts(lines)

    def ratio(which: str, compacted: bool) -> str:
        good, bad = found[which, compacted, True], found[which, compacted, False]
        return f"{good} of {good + bad}"

    return (
        f"{name}: {ratio('changed', False)} within {BEFORE}× (LIMIT: {MORE_MS:g} ms more) before compaction up to "
        f"{100 * MOST_SHARE:g} %; {ratio('changed', True)} within {AFTER}× after it. "
        f"Unchanged copies: {ratio(COPY, False)} and {ratio(COPY, True)}."
    )


def failures(data: dict[str, Any]) -> list[str]:
    """What of ours is beyond its limit, the worst first."""
    found = []
    for line in data["lines"]:
        for cell in line["cells"][1:]:
            if line["engine"] in OURS and is_judged(cell) and not is_within(line, cell):
                base = line["cells"][0]["ms"]
                ratio = cell["ms"] / base if base and cell["ms"] else float("inf")
                state = "compacted" if cell["compacted"] else "changed"
                found.append(
                    (
                        ratio,
                        f"{_title(line)}, {line['question']}, {cell['label']} {state}: {_shown(line, cell)}",
                    )
                )
    return [text for _, text in sorted(found, reverse=True)]


def wrong(data: dict[str, Any]) -> list[str]:
    """Answers that are not right, of anyone."""
    found = [
        f"{_title(line)}, {line['question']}, {cell['label']}"
        for line in data["lines"]
        for cell in line["cells"]
        if cell["note"] == "WRONG"
    ]
    return found + [
        f"LIMIT by parts, {line['question']}, {line['parts']:,} parts"
        for line in data["limits"]
        if any(cell["note"] == "WRONG" for cell in line["cells"])
    ]


# ---------------------------------------------------------------- tables


def _title(line: Line) -> str:
    kind = {"both": "updated and deleted", "update": "updated", "delete": "deleted"}[line["kind"]]
    return f"{line['engine']}, {line['place']}, {line['parts']:,} parts, {line['layout']}, {kind}"


def _shown(line: Line, cell: Line) -> str:
    """The time and the ratio, bold if it is beyond its limit."""
    base, ms = line["cells"][0]["ms"], cell["ms"]
    if ms is None:
        return f"**{cell['note']}**"
    ratio = f" ({ms / base:.2f}×)" if base else ""
    bold = "**" if is_judged(cell) and not is_within(line, cell) else ""
    return f"{bold}{ms:.1f}{ratio}{bold}"


def tables(lines: list[Line]) -> Iterator[str]:
    """A table for each group: two rows a question."""
    for title in dict.fromkeys(map(_title, lines)):
        group = [line for line in lines if _title(line) == title]
        labels = list(dict.fromkeys(cell["label"] for cell in group[0]["cells"][1:]))
        yield f"\n### {title}\n"
        if "part_counts" in group[0]:
            yield f"{_part_counts(group[0])}\n"
        yield f"| question, ms | append-only | state | {' | '.join(labels)} |"
        yield "|---|---:|---|" + "---:|" * len(labels)
        for line in group:
            for compacted in (False, True):
                found = {cell["label"]: cell for cell in line["cells"][1:] if cell["compacted"] == compacted}
                shown = " | ".join(_shown(line, found[label]) for label in labels)
                first = " | " if compacted else f"{line['question']} | {Cell(**line['cells'][0]).show()}"
                yield f"| {first} | {'compacted' if compacted else 'changed'} | {shown} |"


def _part_counts(line: Line) -> str:
    """How many parts each state has: compaction may leave other ones than it found."""
    states = [f"{cell['label']}{' compacted' if cell['compacted'] else ''}" for cell in line["cells"]]
    counts = ", ".join(f"{state} {n:,}" for state, n in zip(states, line["part_counts"], strict=True))
    return f"Parts: {counts}."


def limit_table(limits: list[Line]) -> Iterator[str]:
    """LIMIT by the number of parts, and whether it is flat."""
    yield "\n## LIMIT 10 by the number of parts, rows deleted in each of them\n"
    yield "| question | parts | append-only, ms | deletions in all parts, ms | more, ms |"
    yield "|---|---:|---:|---:|---:|"
    for line in limits:
        plain, deleted = (Cell(**cell) for cell in line["cells"])
        more = f"{deleted.ms - plain.ms:.1f}" if plain.ms is not None and deleted.ms is not None else ""
        yield f"| {line['question']} | {line['parts']:,} | {plain.show()} | {deleted.show()} | {more} |"
    yield ""
    for question in dict.fromkeys(line["question"] for line in limits):
        times = [line["cells"][1]["ms"] for line in limits if line["question"] == question]
        known = [ms for ms in times if ms is not None]
        slow = f", and {len(times) - len(known)} not in time" if len(known) < len(times) else ""
        if known:
            flat = not slow and max(known) <= FLAT * min(known)
            yield (
                f"{question} with deletions: {min(known):.1f} to {max(known):.1f} ms{slow}; "
                f"{'flat' if flat else f'not flat: at most {FLAT}× between sizes is asked'}."
            )


def report(data: dict[str, Any]) -> str:
    """The summary, then every table."""
    lines, beyond, faults = data["lines"], failures(data), wrong(data)
    engines = list(dict.fromkeys(line["engine"] for line in lines))
    ours = [line for line in lines if line["engine"] in OURS]
    summary = [count_line("Tidegate", ours), ""]
    summary += [
        f"- {count_line(name, [line for line in lines if line['engine'] == name])}" for name in engines
    ]
    summary += ["", f"Wrong answers: {'; '.join(faults) if faults else 'none'}."]
    if beyond:
        summary += [
            "",
            f"Beyond their limits: {len(beyond)}. The worst:",
            "",
            *(f"- {text}" for text in beyond[:WORST]),
        ]
    summary += ["", *data["remarks"]] if data["remarks"] else []
    limits = list(limit_table(data["limits"])) if data["limits"] else []
    return "\n".join([*summary, *limits, "\n## Every question", *tables(lines)])
