"""Tidegate keeps time-varying collections as Parquet parts, and reads only what can matter.

This module holds every public name; all other modules may change. Importing it is cheap: pyspark, duckdb and
obstore are imported when something first needs them.
"""

from tidegate.errors import (
    BindError,
    EvaluationError,
    LimitError,
    ParseError,
    PlanError,
    Position,
    SqlError,
    TidegateError,
    TypeMismatch,
    UnsupportedError,
)

__version__ = "0.1.0"

__all__ = [
    "BindError",
    "EvaluationError",
    "LimitError",
    "ParseError",
    "PlanError",
    "Position",
    "SqlError",
    "TidegateError",
    "TypeMismatch",
    "UnsupportedError",
    "__version__",
]
