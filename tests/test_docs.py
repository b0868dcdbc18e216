"""Generated pages are up to date, and the demo runs. All other pages: tests/docs."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(("script", "page"), [("generate", "sql.md"), ("tour_tables", "tour.md")])
def test_a_generated_page_is_up_to_date(script: str, page: str) -> None:
    spec = importlib.util.spec_from_file_location(script, ROOT / "docs" / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert (ROOT / "docs" / page).read_text("utf-8") == generate.page(), "run make docs"


@pytest.mark.long
def test_demo_runs_and_compares_its_answers() -> None:
    command = [sys.executable, "-W", "error", "-m", "tidegate.cli.demo.run", "--rows", "100000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-500:]
    said = done.stdout
    assert said.count("the same answer") == 6
    assert re.search(r"orders_30d: 100,000 records in, (49,9\d\d|50,0\d\d) kept, 0 filtered,", said)
    assert re.search(r"clicks: 20,000 records in \(.* of JSON\), [12],\d\d\d kept", said)
    assert "1 row from metadata; read 0 of" in said
    assert "10 rows from peek; read 1 of" in said
    now, later = (int(n.replace(",", "")) for n in re.findall(r"(\d\d,\d\d\d) orders, the oldest", said))
    assert 16_000 < now - later < 17_500, "ten of thirty days have expired"
    assert max(map(len, said.splitlines())) <= 80
