"""Pictures of what was measured, and where figures are kept.

    keep("prune", data, text)        bench/results/prune.md, prune.json and prune.png
    python -m bench.plot             draws every picture once more, from the .json beside it

Colours are those of Okabe and Ito, which people with any kind of colour vision tell apart; every line has its own marker as well.
Times and selectivities are on logarithmic axes, and say so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

RESULTS = Path(__file__).parent / "results"
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7",
)  # fmt: skip
mpl.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3, "svg.hashsalt": "tidegate"})


def keep(name: str, data: dict[str, Any], text: str) -> None:
    """Writes the table, the figures it was made of, and the picture."""
    RESULTS.mkdir(exist_ok=True)
    head, _, rest = text.partition("\n\n")
    (RESULTS / f"{name}.md").write_text(f"{head}\n\n![{name}]({name}.png)\n\n{rest.strip()}\n")
    (RESULTS / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
    draw(name, data)


def draw(name: str, data: dict[str, Any]) -> None:
    """Writes the picture."""
    figure = DRAW[name](data)
    figure.savefig(RESULTS / f"{name}.png", dpi=130, metadata={"Software": None})
    plt.close(figure)


# ---------------------------------------------------------------- pruning: a grid of counts


def prune(data: dict[str, Any]) -> Any:
    """Which engine reads how many files for which filter."""
    lines, parts = data["filters"], data["parts"]
    engines = [key for key in lines[0] if key not in ("kind", "sql", "needed")]
    figure, axes = plt.subplots(figsize=(11, 10.5))
    counts = [[_count(line[e], "read", parts) for e in engines] for line in lines]
    shades = LinearSegmentedColormap.from_list("blues", ["#deebf7", BLUE])
    axes.imshow(counts, cmap=shades, aspect="auto", vmin=0, vmax=parts)
    for y, line in enumerate(lines):
        for x, engine in enumerate(engines):
            colour = "white" if counts[y][x] > parts / 2 else "black"
            axes.text(x, y, _told(line[engine]), ha="center", va="center", color=colour, fontsize=8)
    axes.set_xticks(range(len(engines)), [f"{e}\n{_score(lines, e, parts)}" for e in engines])
    axes.xaxis.tick_top()
    axes.set_yticks(
        range(len(lines)), [_short(line["sql"]) for line in lines], family="monospace", fontsize=8
    )
    axes.grid(visible=False)
    axes.set_xlabel(
        f"files whose rows are read / files opened at all, of {parts}; light: few.\n"
        "Below each engine: filters for which it reads fewer files than there are, with the right rows."
    )
    figure.suptitle(f"What is read of {parts} files by filters that one file can match (two for IN)")
    figure.tight_layout()
    return figure


def _count(one: dict[str, Any] | None, what: str, parts: int) -> int:
    return parts if one is None or "failed" in one else int(one[what])


def _told(one: dict[str, Any] | None) -> str:
    if one is None:
        return "cannot say it"
    if "failed" in one:
        return "fails"
    return f"{one['read']} / {one['opened']}" + ("" if one["right"] else "\nwrong rows")


def _score(lines: list[dict[str, Any]], engine: str, parts: int) -> str:
    pruned = [line[engine] for line in lines if _count(line[engine], "read", parts) < parts]
    return f"{sum(one['right'] for one in pruned)} of {len(lines)}"


def _short(sql: str, most: int = 58) -> str:
    plain = sql.replace("TIMESTAMPTZ ", "").replace(":00+00'", "'")
    return plain if len(plain) <= most else plain[: most - 1] + "…"


# ---------------------------------------------------------------- late materialisation: CPU time by selectivity

LATEMAT = (
    ("on", "Tidegate", BLACK, "o", "-"), ("off", "Tidegate, late_materialization off", BLACK, "o", ":"),
    ("DuckDB", "DuckDB", ORANGE, "s", "-"), ("Polars", "Polars", BLUE, "^", "-"),
    ("DataFusion", "DataFusion (pushdown on or off, the better)", GREEN, "D", "-"),
)  # fmt: skip
KINDS = {
    "rc": "time range\n(one range)", "er": "int =\n(runs of 2,000)", "lr": "LIKE '%…%'\n(runs of 2,000)",
    "rn": "int <\n(scattered)", "eq": "text =\n(scattered)", "lk": "LIKE '%…%'\n(scattered)",
}  # fmt: skip


def latemat(data: dict[str, Any]) -> Any:
    """CPU time by selectivity: a column of panels for each kind of filter, a row for each number of columns."""
    lines = data["lines"]
    kinds = [k for k in KINDS if any(line["kind"] == k for line in lines)]
    widths = sorted({line["columns"] for line in lines}, reverse=True)
    shape = {"sharex": True, "sharey": "row", "squeeze": False, "figsize": (2.3 * len(kinds) + 1.2, 7.2)}
    figure, grid = plt.subplots(len(widths), len(kinds), **shape)
    for axes_row, columns in zip(grid, widths, strict=True):
        for axes, kind in zip(axes_row, kinds, strict=True):
            _panel(axes, [line for line in lines if (line["kind"], line["columns"]) == (kind, columns)])
        axes_row[0].set_ylabel(f"{columns} columns: CPU ms (log)")
    for axes, kind in zip(grid[0], kinds, strict=True):
        axes.set_title(KINDS[kind], fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel("selectivity (log)")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False)
    figure.suptitle(
        f"CPU time to an Arrow table: {data['rows']:,} rows × 60 columns, one thread, best of {data['repeat']}"
    )
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    return figure


def _panel(axes: Any, lines: list[dict[str, Any]]) -> None:
    for key, label, colour, marker, style in LATEMAT:
        x = [line["selectivity"] for line in lines]
        y = [1e3 * _best(line["cpu"], key) for line in lines]
        width = 2.2 if key == "on" else 1.2
        axes.plot(
            x,
            y,
            style,
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=width,
            label=label,
            zorder=2 + width,
        )
    axes.set(xscale="log", yscale="log")


def _best(cpu: dict[str, float], key: str) -> float:
    return min(cpu[key], cpu.get(f"{key}, no pushdown", float("inf")))


# ---------------------------------------------------------------- peeks: latency by number of parts

PEEK = (
    ("Tidegate, local files", BLACK, "o", "-"), ("Tidegate, S3", BLUE, "s", "-"),
    ("Spark, local files", RED, "^", "--"), ("Spark, again", ORANGE, "v", ":"),
)  # fmt: skip


def peek(data: dict[str, Any]) -> Any:
    """The median latency by number of parts, a panel for each question."""
    asked = list(dict.fromkeys(line["query"] for line in data["lines"]))
    figure, grid = plt.subplots(1, len(asked), figsize=(5.2 * len(asked), 4.6), sharey=True, squeeze=False)
    for axes, query in zip(grid[0], asked, strict=True):
        for height, (label, colour, marker, style) in enumerate(PEEK):
            found = [line for line in data["lines"] if (line["query"], line["engine"]) == (query, label)]
            known = [line for line in found if line["p50"] is not None]
            x, y = [line["parts"] for line in known], [1e3 * line["p50"] for line in known]
            axes.plot(x, y, style, color=colour, marker=marker, label=label)
            for line in found:
                if line["p50"] is None:
                    axes.annotate(
                        f"{label}: over {line['timeout']:.0f} s", (line["parts"], 0.97 - 0.05 * height), color=colour,
                        xycoords=("data", "axes fraction"), ha="right", va="top", fontsize=8,
                    )  # fmt: skip
        axes.set(xscale="log", yscale="log", title=query, xlabel="parts (log)")
    grid[0][0].set_ylabel("p50 of a query, ms (log)")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.suptitle("Ten rows of a collection, by the number of its parts")
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    return figure


# ---------------------------------------------------------------- Spark: beside plain Parquet


def spark(data: dict[str, Any]) -> Any:
    """Our time by that of plain Parquet, a bar for each question, and what was asked for."""
    lines = data["lines"]
    figure, axes = plt.subplots(figsize=(7.5, 3.6))
    y = range(len(lines))
    axes.barh(y, [line["ratio"] for line in lines], color=SKY, label="Tidegate / plain Parquet")
    axes.plot(
        [line["most"] for line in lines],
        y,
        "|",
        color=RED,
        markersize=18,
        markeredgewidth=2,
        label="asked for at most",
    )
    for place, line in zip(y, lines, strict=True):
        axes.text(
            line["ratio"],
            place,
            f"  {line['ratio']:.2f} ({1e3 * line['ours']:.0f} ms)",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(y, [line["question"] for line in lines])
    axes.invert_yaxis()
    axes.axvline(1, color=BLACK, linewidth=0.8)
    axes.set_xlabel("time by that of spark.read.parquet; less is better")
    axes.set_xlim(0, max(1.5, *(1.25 * line["ratio"] for line in lines)))
    axes.legend(loc="lower right")
    figure.suptitle("Reading a collection on Spark")
    figure.tight_layout()
    return figure


DRAW: dict[str, Callable[[dict[str, Any]], Any]] = {
    "prune": prune,
    "latemat": latemat,
    "peek": peek,
    "spark": spark,
}


if __name__ == "__main__":
    for one in DRAW:
        if (RESULTS / f"{one}.json").exists():
            draw(one, json.loads((RESULTS / f"{one}.json").read_text()))
