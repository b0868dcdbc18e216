"""Patterns: what they match, in a folder as in a bucket."""

import doctest
import fnmatch
import random
from pathlib import Path

import pytest

from tidegate.ingest.upstreams.files import pattern as files_pattern
from tidegate.ingest.upstreams.files.location import LocalFolder
from tidegate.ingest.upstreams.files.pattern import Pattern

CASES = [
    ("/in/*.json", ["/in/a.json", "/in/é.json"], ["/in/a.csv", "/in/x/a.json", "/a.json", "/in/.json", "/in/a.jsonx"]),
    ("/in/a?.x", ["/in/ab.x"], ["/in/a.x", "/in/abb.x", "/in/a/.x"]),
    ("/in/[ab]*", ["/in/a", "/in/bc"], ["/in/c", "/in/"]),
    ("/in/[!ab]*", ["/in/c", "/in/]"], ["/in/a", "/in/.c"]),
    ("/in/[a-c0-]x", ["/in/bx", "/in/0x", "/in/-x"], ["/in/dx"]),
    ("/in/[]x]", ["/in/]", "/in/x"], ["/in/y"]),
    ("/in/[z-a]", [], ["/in/z", "/in/-"]),
    ("/in/[!z-a]", ["/in/z"], []),
    ("/in/a[b", ["/in/a[b"], ["/in/ab"]),
    ("/in/{json,csv}/*.{a,b*}", ["/in/json/x.a", "/in/csv/x.bc"], ["/in/xml/x.a", "/in/json/x.c"]),
    ("/in/a{b", ["/in/a{b"], []),
    ("/in/**/*.x", ["/in/a.x", "/in/b/a.x", "/in/b/c/a.x"], ["/a.x", "/in/.b/a.x", "/in/_temporary/a.x", "/in/b/.a.x"]),
    ("/in/**", ["/in/a", "/in/b/a"], ["/in", "/in/.a"]),
    ("/in/", ["/in/a", "/in/b/a"], ["/in"]),
    ("/**/b/*", ["/b/x", "/a/b/x", "/a/b/b/x"], ["/b", "/a/x"]),
    ("/in/a**b", ["/in/ab", "/in/axb"], ["/in/a/b"]),
    ("/in/.hidden/*.x", ["/in/.hidden/a.x"], ["/in/.hidden/.a.x"]),
    ("/in/.*", ["/in/.a"], ["/in/a"]),
    ("/in/*.tmp", ["/in/a.tmp"], ["/in/a.tmpx"]),
    ("/in/a.tmp", ["/in/a.tmp"], ["/in/a.tmpx", "/in/.a.tmp"]),
    ("/in/*", ["/in/_a", "/in/_temporarily", "/in/tmp"], ["/in/_temporary", "/in/_SUCCESS", "/in/a.tmp", "/in/a.inprogress"]),
    ("/in/a.b+c(d)", ["/in/a.b+c(d)"], ["/in/axb+c(d)"]),
    ("//in//*.x", ["/in/a.x"], []),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "matched", "others"), CASES)
def test_matches(pattern: str, matched: list[str], others: list[str]) -> None:
    found = Pattern.of(pattern)
    assert [path for path in matched if not found.matches(path)] == []
    assert [path for path in others if found.matches(path)] == []
    assert all(path.startswith(found.folder) for path in matched)


def test_walking_a_folder_finds_what_matches(tmp_path: Path) -> None:
    """Every pattern that can be made of some segments, over a tree of folders: the walk looks nowhere too little."""
    names = ["a", "b.x", ".c", "_temporary", "d.tmp"]
    files = [f"{one}/{two}/{three}" for one in names for two in names for three in ("a.x", ".c", "e.tmp")]
    files += [f"{one}/f.x" for one in names] + ["f.x", ".g"]
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    random_ = random.Random(1)
    segments = ["**", "*", "a", "?.x", ".c", ".*", "_temporary", "*.tmp", "[!a]*", "{a,b.x}"]
    seen = 0
    for _ in range(300):
        text = "/".join(random_.choices(segments, k=random_.randint(1, 4)))
        pattern = Pattern.of(f"{tmp_path}/{text}")
        found = sorted(file.path for file in LocalFolder(pattern).list())
        assert found == sorted(
            f"{tmp_path}/{file}" for file in files if pattern.matches(f"{tmp_path}/{file}")
        )
        seen += len(found)
    assert seen > 200


def test_names_as_a_shell_would() -> None:
    random_ = random.Random(2)
    for _ in range(2_000):
        pattern = "".join(random_.choices("ab*?[]!-", k=random_.randint(1, 6)))
        name = "".join(random_.choices("ab-!]", k=random_.randint(1, 5)))
        assert Pattern.of(f"/x/{pattern}").matches(f"/x/{name}") == (fnmatch.fnmatchcase(name, pattern)), (
            pattern,
            name,
        )


def test_examples() -> None:
    assert doctest.testmod(files_pattern).failed == 0
