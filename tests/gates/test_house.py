"""The project keeps the rules of the house, and every rule finds a violation that is planted."""

from pathlib import Path

import pytest

from tests.gates import house
from tests.gates.house import House, Rule

ROOT = Path(__file__).parents[2]
ROOM = '"""A room."""\n'
PLANTED: dict[str, dict[str, str]] = {
    "doors": {
        "tidegate/store/__init__.py": ROOM,
        "tidegate/store/files.py": "class FileBlob: ...",
        "tidegate/read/__init__.py": ROOM,
        "tidegate/read/scan.py": "from tidegate.store.files import FileBlob",
    },
    "door_size": {
        "tidegate/store/__init__.py": f"__all__ = {[f'Name{i}' for i in range(house.DOOR_NAMES + 1)]}",
    },
    "folders": {
        "tidegate/store/__init__.py": ROOM,
        **{f"tidegate/store/{name}.py": "" for name in ("kafka", "kafka_read", "kafka_topic")},
    },
    "class_names": {"tidegate/a.py": "class Split: ...", "tidegate/b.py": "class Split: ..."},
    "vague_names": {"tidegate/a.py": "MOST = 7"},
    "mutable_state": {"tidegate/a.py": "_sizes: dict[str, int] = {}"},
    "summaries": {"tidegate/a.py": '"""What is told of a part to whoever asks."""'},
    "message_text": {"tidegate/a.py": "def retry(error):\n    return 'timeout' in str(error)"},
}


@pytest.fixture(scope="module")
def tidegate() -> House:
    return House.read(ROOT / "src")


@pytest.mark.parametrize("rule", house.RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps_it(rule: Rule, tidegate: House) -> None:
    assert list(rule(tidegate)) == []


@pytest.mark.parametrize("rule", house.RULES, ids=lambda rule: rule.__name__)
def test_a_planted_violation_is_found(rule: Rule) -> None:
    assert list(rule(House.of(PLANTED[rule.__name__]))) != []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("doors", "from tidegate.store import FileBlob"),  # not listed in the door
        ("doors", "import tidegate.store.files"),
        ("vague_names", "def told(x): ..."),
        ("vague_names", "class Reader:\n    def found(self): ..."),
        ("mutable_state", "CACHE = LruCache(256)"),
        ("mutable_state", "NAMES = {'a': 1}\ndef learn(x):\n    NAMES[x] = 2"),
        ("mutable_state", "def count():\n    global total\n    total = 1"),
        ("summaries", f'def f():\n    """{"x" * house.SUMMARY_LENGTH}."""'),
        ("summaries", 'class Part:\n    """A part of the collection"""'),
        ("message_text", "def f(error):\n    if error.message.startswith('in view'): ..."),
        ("message_text", "def f(error):\n    return re.search('gone', str(error))"),
    ],
)
def test_other_shapes_of_a_violation_are_found(name: str, text: str) -> None:
    sources = {
        "tidegate/store/__init__.py": ROOM,
        "tidegate/store/files.py": "class FileBlob: ...",
        "tidegate/read/__init__.py": ROOM,
        "tidegate/read/scan.py": text,
    }
    assert list(getattr(house, name)(House.of(sources))) != []


def test_good_code_is_left_alone() -> None:
    sources = {
        "tidegate/store/__init__.py": (
            '"""Stores."""\nfrom tidegate.store.files import FileBlob\n__all__ = ["FileBlob"]'
        ),
        "tidegate/store/files.py": '"""Files."""\nSIZES = {"a": 1}\n\nclass FileBlob:\n    """Blobs as files."""',
        "tidegate/read/__init__.py": ROOM,
        "tidegate/read/scan.py": "from tidegate.store import FileBlob\n\ndef size(error):\n    return error.code == 'gone'",
    }
    good = House.of(sources)
    assert [line for rule in house.RULES for line in rule(good)] == []
