"""Small files that unpack to much more are ingested in little memory, or refused by an error that names them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ingest.bombs import BOMBS

MOST_MB = 350
"""By which a process may grow: what unpacks to 400 MB and more is not held as a whole, let alone several times."""


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_bomb(bomb: Callable[[Path], None], tmp_path: Path) -> None:
    bomb(tmp_path)
    format_, query, rows, error = BOMBS[bomb]
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2_500_000
    done = subprocess.run(
        [sys.executable, "-m", "tests.ingest.bombs", str(tmp_path), format_, query],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["rows"] == rows
    assert len(found["errors"]) == bool(error)
    assert error in "".join(found["errors"])
    assert found["mb"] < MOST_MB
