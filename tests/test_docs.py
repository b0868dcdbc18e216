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
    said = [
        "[(3,), (3,)] 1 3 [(1,), (1,)] 5 6 UPDATE 4 DELETE 2",
        (
            "peek 1 of 20 10 peek 1 of 20 5 metadata 0 of 20 1 local 2 of 20 2 local 20 of 20 1"
            " id / 2 > 9000 18 None md5(price::text) = 'x' 0 the cast from float8 to text has no trend"
            " the query was cancelled True"
        ),
        "14 1 52 spark [('de', 20), ('np', 20), ('us', 20)] 3",
        "[0 1 1] [ false, true ]",
    ]
    for code, expected in zip(blocks, said, strict=True):
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == "" or "tidegate.spark" in code, "Spark greets on stderr, and nobody else may"
        assert " ".join(done.stdout.split()) == expected, done.stderr


def test_demo_runs_and_compares_its_answers() -> None:
    command = [sys.executable, "-W", "error", "-m", "tidegate.demo", "--rows", "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.count("the same rows either way") == 5
    assert "30 of 365 parts are read" in done.stdout
    assert done.stdout.count("and the same when everything is read") == 7
    assert re.search(r"LIMIT 10\n    peek: 10 rows; 1 of 30 parts", done.stdout)
    assert re.search(r"metadata: 1 row; 0 of 30 parts, 0 bytes of", done.stdout)
    share = re.search(r"the same rows, for (\d+)% of the bytes", done.stdout)
    assert share is not None
    assert int(share[1]) < 30
    assert "path: local" in done.stdout
    assert "cannot prune: md5 has no trend" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
