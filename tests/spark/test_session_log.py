"""The log of a JVM goes to a file: the process inherits our standard error, which is the file while it starts."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.spark.session.sessions import log_to


def test_a_process_that_is_started_inside_logs_to_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "spark.log"
    late = "import sys, time; time.sleep(0.3); sys.stderr.write('WARN late\\n')"
    with log_to(str(log)):
        subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('WARN early\\n')"], check=True)
        child = subprocess.Popen([sys.executable, "-c", late])
    sys.stderr.write("an error of ours\n")
    child.wait()
    assert log.read_text() == "WARN early\nWARN late\n"
    assert capfd.readouterr().err == "an error of ours\n"
    with pytest.raises(subprocess.CalledProcessError), log_to(str(log)):
        subprocess.run([sys.executable, "-c", "import sys; sys.exit('no JRE here')"], check=True)
    assert capfd.readouterr().err == "no JRE here\n"
    with log_to(None):
        subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('shown\\n')"], check=True)
    assert capfd.readouterr().err == "shown\n"


def test_a_terminal_says_that_spark_starts(tmp_path: Path) -> None:
    inside, outside = pty.openpty()
    code = "from tidegate.spark.session.sessions import log_to\nwith log_to('spark.log'): pass"
    subprocess.run([sys.executable, "-c", code], check=True, stderr=outside, cwd=tmp_path)
    os.close(outside)
    with open(inside, "rb", buffering=0) as terminal:
        assert terminal.read(100).decode() == "starting Spark …\r\x1b[K"  # and the line is empty again
