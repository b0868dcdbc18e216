"""The frozen corpus of transforms: see `corpus.py` for what is promised, and how something is added."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import corpus
from tidegate.plan import serialize as stored

FILES = corpus.files()


def kept(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_stored_plan_gives_the_same_rows_for_ever(path: Path) -> None:
    file = kept(path)
    for entry in (file, corpus.current(file)):
        for plan in entry["plans"]:
            assert corpus.given(stored.from_json(plan)) == {key: entry[key] for key in ("rows", "failures")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_once_became_a_plan_always_does(path: Path) -> None:
    file = kept(path)
    done = corpus.bound(file["sql"])
    assert list(done.names) == file["names"]
    entry = corpus.current(file)
    assert corpus.given(done.plan) == {key: entry[key] for key in ("rows", "failures")}
    assert stored.to_json(done.plan) == entry["plans"][-1], (
        "planning changed: python -m tests.golden.corpus keeps both plans"
    )


def test_the_corpus_is_whole() -> None:
    assert {path.stem for path in FILES} == set(corpus.TRANSFORMS)
    assert len(FILES) >= 40
    used = {
        node["call"]
        for path in FILES
        for plan in kept(path)["plans"]
        for node in plan["nodes"]
        if "call" in node
    }
    assert len(used) > 100, "functions that the corpus pins"
    assert any(kept(path)["failures"] for path in FILES)
    assert {path.stem for path in FILES if "revised" in kept(path)} == corpus.REVISED
    assert all(kept(path)["sql"] == corpus.TRANSFORMS[path.stem] for path in FILES), (
        "a transform is never changed"
    )
