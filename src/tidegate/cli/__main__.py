"""Runs the command line: `python -m tidegate.cli`."""

from tidegate.cli import run

run()
