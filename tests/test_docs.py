"""The documentation is true: generated pages are as the code would generate them now, and what README shows runs."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_sql_reference_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert (ROOT / "docs" / "sql.md").read_text("utf-8") == generate.page(), "run make docs"


def test_readme_runs_and_prints_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    said = ["[(3,), (3,)] 1 3 [(1,), (1,)] 5 6 UPDATE 4 DELETE 2", "[0 1 1] [ false, true ]"]
    for code, expected in zip(blocks, said, strict=True):
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        assert " ".join(done.stdout.split()) == expected


def test_demo_runs_and_compares_its_answers() -> None:
    command = [sys.executable, "-W", "error", "-m", "tidegate.demo", "--rows", "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.count("the same rows either way") == 5
    assert "30 of 365 parts are read" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
