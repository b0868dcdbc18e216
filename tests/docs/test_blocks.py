"""Every fenced block of README.md and docs/*.md does what it says. `blocks.py` has the words that fences say.

Pages that use Spark run in one process, as its session takes ten seconds to start; the others in a process each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import NO_RUN, WrongBlock, blocks, fits
from tests.docs.run import NOT_HERE, Page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNS = [
    page for page in PAGES if page.name != "sql.md"
]  # that one is printed by a program, and has no blocks


def uses_spark(page: Path) -> bool:
    """Whether a block of it that is run names Spark."""
    try:
        found = blocks(page, page.name)
    except WrongBlock:
        return False  # its own test says what is wrong
    return any("spark" in one.text and one.language == "python" and one.why_not is None for one in found)


WITH_SPARK = [page for page in RUNS if uses_spark(page)]
ALONE = [page for page in RUNS if page not in WITH_SPARK]


def run(folder: Path, pages: list[Path]) -> None:
    """Runs pages, and fails with all that is wrong in them."""
    (folder / "in").mkdir()
    report = folder / "report.json"
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "tests.docs.run",
        str(folder / "in"),
        str(report),
        *map(str, pages),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert report.exists(), done.stdout[-2000:] + done.stderr[-4000:]
    found: list[dict[str, Any]] = json.loads(report.read_text())
    wrong = [f"{one['at']} ({one['language']})\n{one['wrong']}" for one in found if one["wrong"]]
    assert not wrong, "\n\n".join(wrong) + "\n" + done.stderr[-3000:]
    assert found or not any(blocks(page, page.name) for page in pages)
    assert len(found) == sum(len(blocks(page, page.name)) for page in pages)
    absent = [one["why_not"] for one in found if str(one["why_not"]).startswith(NOT_HERE)]
    if absent:
        pytest.skip("; ".join(absent))


@pytest.mark.parametrize("page", ALONE, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path) -> None:
    run(tmp_path, [page])


@pytest.mark.long
def test_pages_with_spark(tmp_path: Path) -> None:
    assert WITH_SPARK
    run(tmp_path, WITH_SPARK)


def test_what_is_not_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """And is the smaller part by far."""
    every = [block for page in PAGES for block in blocks(page, str(page.relative_to(ROOT)))]
    code = [block for block in every if block.language != "text" and not block.hidden]
    left = [block for block in code if block.why_not is not None]
    with capsys.disabled():
        print(f"\n{len(code)} blocks of code in {len(PAGES)} pages, {len(left)} not run:")
        for reason, count in Counter(str(block.why_not) for block in left).most_common():
            places = ", ".join(block.at for block in left if block.why_not == reason)
            print(f"  {reason}: {count} ({places})")
    assert len(left) < len(code) / 4
    assert {block.why_not for block in left} == NO_RUN, "a reason that nobody needs is no reason"


def test_a_fence_must_say_what_it_is(tmp_path: Path) -> None:
    page = tmp_path / "x.md"
    for info in ("", "bash", "python often", "sh no-run: I say so"):
        page.write_text(f"words\n\n```{info}\nx\n```\n")
        with pytest.raises(WrongBlock):
            blocks(page, "x.md")


@pytest.mark.parametrize(
    "block",
    [
        "```python\nprint(5)  # → 6\n```",
        "```python\nfor x in [1]:\n    print(x)  # → 1\n    pass\n```",
        "```python\nprint(5)\n```\n```text\n6\n```",
        "```sql\nSELECT 1 / 0\n```",
        "```sql\nSELECT 1\n```\n```text\n2\n```",
        "```console\n$ tidegate config\nnothing\n```",
        "```sh\ntidegate nonsense\n```",
        "```sh\nfalse\n```",
        "```text\n5\n```",
        "```sql no-run: needs a bucket\nSELEC 1\n```",
        "```python no-run: needs a cluster\nf(\n```",
    ],
)
def test_what_is_wrong_is_found(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner itself: a page that is not true fails."""
    page = tmp_path / "x.md"
    page.write_text(f"words\n\n{block}\n")
    monkeypatch.chdir(tmp_path)
    assert [one for one in Page(page).run() if one["wrong"]], block


def test_what_is_shown_may_leave_out() -> None:
    assert fits("a\n…\nd", "a\nb\nc\nd\n")
    assert fits("a … d", "a b c d")
    assert fits("a\n…\nd", "a\nd")
    assert not fits("a\n…\nd", "a\nb\n")
    assert not fits("a", "a\nb")
