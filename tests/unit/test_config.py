"""Config: values given to it directly are read and refused as SET reads and refuses them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tidegate import Config


def test_every_setting_has_an_effect() -> None:
    """Code that reads a setting names it behind a dot: `config.part_bytes`."""
    source = "".join(path.read_text() for path in Path(tidegate.__file__).parent.rglob("*.py"))
    without = [name for name in Config.meanings() if not re.search(rf"(?<!Config\(\))\.{name}\b", source)]
    assert without == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("audit", 7),
        ("audit", -0.1),
        ("audit", "often"),
        ("audit", True),
        ("part_bytes", 1.5),
        ("part_bytes", "x"),
        ("part_bytes", -1),
        ("stats_filter", 3),
        ("stats_filter", "maybe"),
    ],
)
def test_wrong_values_are_refused_as_by_set(name: str, value: Any) -> None:
    with pytest.raises(tidegate.BindError, match=f"{name} cannot be ") as constructed:
        Config(**{name: value})
    with (
        tidegate.open("memory://") as db,
        pytest.raises(tidegate.BindError, match=f"{name} cannot be ") as was_set,
    ):
        db.set(name, value)
    assert (constructed.value.message, constructed.value.hint) == (was_set.value.message, was_set.value.hint)


@pytest.mark.parametrize("value", [None, [1], object()])
def test_values_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(tidegate.BindError, match="lease_ms cannot be "):
        Config(lease_ms=value)


def test_values_are_read_as_set_reads_them() -> None:
    values: dict[str, Any] = {"audit": 1, "stats_filter": "off", "part_bytes": "12"}
    config = Config(**values)
    assert (config.audit, config.stats_filter, config.part_bytes) == (1.0, False, 12)
    assert isinstance(config.audit, float)
    assert Config(part_bytes=2**60 + 1).part_bytes == 2**60 + 1
    assert pickle.loads(pickle.dumps(config)) == config
