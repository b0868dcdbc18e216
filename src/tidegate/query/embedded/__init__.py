"""The embedded engine: queries of any shape on DuckDB, in this process, without a JVM.

    run_embedded(pinned, cancel)             a Result with path 'embedded'

Our own readers give DuckDB the rows of each scan; relational operators over plain columns are DuckDB's, whose order of NaN, NULL
and text is ours; scalar expressions are DuckDB's where their meaning is exactly ours (`duckdb=` of a declaration), and else run
in our evaluator. Uses `query/relational` for the scans and `plan/sql/writer.py` for the text.
"""

from tidegate.query.embedded.choice import groups_embedded
from tidegate.query.embedded.dialect import can_run
from tidegate.query.embedded.execution import analyze_embedded, run_embedded
from tidegate.query.embedded.interrupt import call_interruptibly, interrupting
from tidegate.query.embedded.operators import OperatorCost

__all__ = [
    "OperatorCost",
    "analyze_embedded",
    "call_interruptibly",
    "can_run",
    "groups_embedded",
    "interrupting",
    "run_embedded",
]
