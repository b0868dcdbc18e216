"""The site: every link of every page leads to a page of it. mkdocs itself runs where `make site` has installed it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.site.hooks import ROOT, moved, reached, rendered, site_name, slug, text_of

PAGES = [Path("README.md"), *(one.relative_to(ROOT) for one in sorted((ROOT / "docs").glob("*.md")))]
MKDOCS = ROOT / ".venv" / "site" / "bin" / "mkdocs"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_places_of_files() -> None:
    assert site_name(Path("README.md")) == "index.md"
    assert site_name(Path("docs/README.md")) == "contents.md"
    assert site_name(Path("docs/spark.md")) == "spark.md"
    assert site_name(Path("docs/pictures/parts.png")) == "pictures/parts.png"
    assert site_name(Path("src/tidegate/context.py")) == "project/src/tidegate/context.py.md"
    assert site_name(Path("examples")) == "project/examples/README.md"
    names = [site_name(path) for path in {*reached(), *PAGES}]
    assert len(names) == len(set(names)), "two files have one place"


def test_links_are_moved_and_code_is_not() -> None:
    page = Path("docs/faq.md")
    assert moved("[x](../README.md#start)", page) == "[x](index.md#start)"
    assert moved("[x](spark.md) [y](#data)", page) == "[x](spark.md) [y](#data)"
    assert moved("[x](https://example.org/a.md)", page) == "[x](https://example.org/a.md)"
    assert moved("[`x`](../src/tidegate/expr)", page) == "[`x`](project/src/tidegate/expr/README.md)"
    assert moved("```text\n[x](../README.md)\n```\n", page) == "```text\n[x](../README.md)\n```\n"
    peek = Path("bench/results/peek.md")
    assert moved("![x](peek.png)", peek) == "![x](peek.png)"
    assert moved("[x](../../docs/spark.md)", peek) == "[x](../../../spark.md)"


def test_pages_are_in_the_manner_of_the_site() -> None:
    page = Path("docs/faq.md")
    assert rendered("```sh no-run: installs\nx\n```\n", page) == "```sh\nx\n```\n"
    assert rendered("a\n<!-- python\nb = 1\n-->\nc\n", page) == "a\nc\n"
    assert rendered("words:\n- a\n- b\n", page) == "words:\n\n- a\n- b\n"
    assert rendered("1. a\n   b\n2. c\n", page) == "1. a\n    b\n\n2. c\n"
    assert rendered("1. **A** b\n   c\n\n   ```sh\n   d\n   ```\n", page).splitlines()[3] == "    ```sh"
    assert slug("Since and `upper`: what can be read") == "since-and-upper-what-can-be-read"


def test_every_link_leads_to_a_page_of_the_site() -> None:
    there = {site_name(path) for path in {*reached(), *PAGES}}
    there |= {site_name(one.relative_to(ROOT)) for one in (ROOT / "docs" / "pictures").iterdir()}
    seen = 0
    for path in {*reached(), *PAGES}:
        if path.suffix in {".png", ".svg"}:
            continue
        start = path / "README.md" if (ROOT / path / "README.md").exists() else path
        text = re.sub(
            r"^( *)```.*?^\1```", "", rendered(text_of(path), start), flags=re.MULTILINE | re.DOTALL
        )
        for link in LINK.findall(re.sub(r"`[^`\n]+`", "", text)) if path.suffix in {".md", ""} else ():
            target = link.partition("#")[0]
            if target and "://" not in target:
                seen += 1
                name = os.path.normpath(Path(site_name(path)).parent / target)
                assert name in there, f"{path}: {link}"
    assert seen > 300


@pytest.mark.slow
@pytest.mark.skipif(not MKDOCS.exists(), reason="mkdocs is not here: make site installs it")
def test_mkdocs_builds_it(tmp_path: Path) -> None:
    """Strictly, and what it wrote has no link to a page or an anchor that is not there, and loads nothing from elsewhere."""
    done = subprocess.run(
        [MKDOCS, "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {one: one.read_text("utf-8") for one in tmp_path.rglob("*.html") if one.name != "404.html"}
    ids = {page: set(re.findall(r'\bid="?([^"\s>]+)', text)) for page, text in pages.items()}
    assert len(pages) > 100
    assert (tmp_path / "search" / "search_index.json").exists()
    for page, text in pages.items():
        assert not re.findall(r'<(?:script|img|link)\b[^>]*(?:src|href)="?https?:', text), page
        for href in re.findall(r'(?:href|src)="?([^"\s>]+)', text):
            link = urlsplit(href)
            if link.scheme:
                continue
            target = (page.parent / unquote(link.path)).resolve() if link.path else page
            assert target.exists(), f"{page.relative_to(tmp_path)}: {href}"
            if link.fragment and target in ids:
                assert unquote(link.fragment) in ids[target], f"{page.relative_to(tmp_path)}: {href}"
