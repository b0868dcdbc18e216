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
        "1001 900 49 51 1 [(51,)] [('1001', 'invalid input syntax for type json')]",
        "14 1 52 spark [('de', 20), ('np', 20), ('us', 20)] 3",
        "[0 1 1] [ false, true ]",
    ]
    for code, expected in zip(blocks, said, strict=True):
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == "" or "tidegate.spark" in code, "Spark greets on stderr, and nobody else may"
        assert " ".join(done.stdout.split()) == expected, done.stderr


def test_demo_runs_and_compares_its_answers() -> None:
    command = [sys.executable, "-W", "error", "-m", "tidegate.demo", "--rows", "100000"]
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
