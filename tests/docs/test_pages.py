"""What pages say beside their blocks: links lead somewhere, figures are the benchmarks', pictures what lakes answer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tidegate
from docs import concepts_pictures, pruning_pictures
from tidegate.config import Config

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BESIDE = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md")]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")

NOT_FOR_USERS = {"Position", "Result", "maps", "session"}
"""Where in a text an error is, what `db.sql` gives, what pages draw, what a server gives its clients."""


def _prose(page: Path) -> str:
    """A page without its blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """What GitHub makes of headings."""
    heads = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES + BESIDE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(_prose(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in _anchors(target), f"{page.name}: {link}"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    missing = [page.name for page in PAGES[1:] if page.name != "README.md" and f"({page.name})" not in index]
    assert missing == []


def test_figures_are_those_of_the_benchmarks() -> None:
    """Each row of README's table names the page that it is from. If this fails, a benchmark was run again: write what it found."""
    text = (ROOT / "README.md").read_text("utf-8")
    table = text.partition("## Measured")[2].partition("## ")[0]
    rows = [line for line in table.splitlines() if "bench/results/" in line and line.startswith("| ")]
    assert len(rows) >= 5
    for row in rows:
        page = ROOT / LINK.findall(row)[0]
        cells = row.split("|")
        figures = re.findall(r"\d[\d.]*", cells[2] + cells[3])
        found = re.findall(r"\d[\d.]*", page.read_text("utf-8").replace("**", ""))
        assert figures
        assert set(figures) <= set(found), f"{row}\nis not in {page.name}"


@pytest.mark.parametrize(
    ("page", "pictures"),
    [("pruning.md", pruning_pictures.pictures), ("concepts.md", concepts_pictures.pictures)],
)
def test_pictures_are_what_lakes_answer(page: str, pictures: Callable[[], dict[str, str]]) -> None:
    drawn = pictures()
    for name, picture in drawn.items():
        assert (ROOT / "docs" / "pictures" / name).read_text("utf-8") == picture, f"{name}: run make docs"
    shown = LINK.findall((ROOT / "docs" / page).read_text("utf-8"))
    assert {f"pictures/{name}" for name in drawn} <= set(shown)


def test_the_glossary_is_complete_and_in_order() -> None:
    """Each word once, in order; words in italics have an entry, and so have those that concepts.md explains."""
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", text, re.MULTILINE)
    words = [word.lower() for word, _ in rows]
    assert len(rows) == text.count("\n| **"), "a row that is not `| **word** | meaning |`"
    assert words == sorted(set(words), key=lambda word: word.replace("()", ""))

    def has_entry(word: str) -> bool:
        forms = {word, word.removesuffix("s"), word.removesuffix("d"), word.removesuffix("ed")}
        return bool(forms & set(words))

    named = {one.lower() for _, meaning in rows for one in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", meaning)}
    concepts = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    explained = {one.strip("`") for one in re.findall(r"\*\*([^*]+)\*\*", concepts)}
    assert len(named) > 20
    assert len(explained) > 10
    assert [word for word in sorted(named | explained) if not has_entry(word)] == []


def test_the_tour_names_files_that_exist() -> None:
    there = {path.name for room in ("src", "tests", "bench", "docs") for path in (ROOT / room).rglob("*.py")}
    named = set(re.findall(r"`(?:[\w./]*/)?(\w+\.py)`", (ROOT / "docs" / "tour.md").read_text("utf-8")))
    assert len(named) > 30
    assert named - there == set()


def test_every_command_is_in_the_readme() -> None:
    from tidegate.cli.main import app

    commands = {name for name in app if not name.startswith("-")}
    told = set(re.findall(r"`tidegate (\w+)", (ROOT / "README.md").read_text("utf-8")))
    assert told == commands


def test_flags_of_serve_are_real() -> None:
    from tidegate.cli.serve import serve

    flags = {f"--{name.replace('_', '-')}" for name in inspect.signature(serve).parameters}
    for page in (ROOT / "README.md", ROOT / "docs" / "operations.md"):
        for line in page.read_text("utf-8").splitlines():
            if "tidegate serve" in line and not line.startswith("#"):
                assert (
                    set(re.findall(r"(?<![\w-])--[a-z-]+", line.partition("tidegate serve")[2])) <= flags
                ), line


def test_settings_that_are_told_exist() -> None:
    """Those in the table of operations.md that say what to turn."""
    table = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## Tuning")[2].partition("## ")[0]
    turned = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ")][1:]
    named = {word for cell in turned for word in re.findall(r"`([a-z]+(?:_[a-z]+)+|audit)`", cell)}
    assert len(named) > 10
    assert named <= set(Config.meanings()), named - set(Config.meanings())


def test_every_public_name_is_told() -> None:
    """In python.md: what `tidegate` exports, and what a database can do."""
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    names = {name for name in tidegate.__all__ if not name.startswith("_")}
    names |= {name for name in vars(tidegate.Database) if not name.startswith("_")}
    told = {name for name in names if re.search(rf"\b{name}\b", page)}
    assert names - told <= NOT_FOR_USERS
