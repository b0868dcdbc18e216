'''Every scalar function and cast, each declared once. Importing this package fills `REGISTRY`.

A declaration says what a function computes and what the planner may conclude from it:

    @scalar("initcap", (TEXT,), TEXT, errors=NEVER, transfer=keeps_prefix, cost=MODERATE, stable=True)
    def initcap(a: Datum) -> pa.Array:
        """The first letter of each word in upper case, the rest in lower case."""

`model/function.py` explains the claims, `domain/claims.py` the building blocks of transfers. A new function is one such
declaration in a module of its subject, and a new module is one row of `SUBJECTS`; docs/sql.md (`make docs`), the laws of
tests/laws, completion in the shell and the differential tests on Spark find it in the registry.

| folder | contents |
|---|---|
| `boolean` | AND, OR, NOT, IS NULL, CASE, COALESCE, GREATEST |
| `compare` | comparisons, IN, ANY, ALL |
| `number`, `numeric` | arithmetic and mathematics of integers and floats, and of numerics |
| `text` | text, bytea, LIKE, regular expressions |
| `time` | dates, times, intervals, time zones, to_char |
| `json`, `nested` | jsonb; arrays and records |
| `cast` | casts between all types |
| `aggregate` | what aggregates compute from lists and sums of a group |
| `planning` | functions that only the planner creates |
| `volatile` | functions that give another value for each row |

The sub-room rests on all other sub-rooms of `tidegate.expr`.
'''

from importlib import import_module

SUBJECTS = (  # overloads of one name are tried in this order, which decides between equally good ones
    "boolean.logic",
    "compare.comparison",
    "planning",
    "volatile",
    "boolean.conditional",
    "boolean.null_count",
    "compare.membership",
    "number.arithmetic",
    "number.math",
    "number.more_math",
    "number.to_char",
    "numeric.arithmetic",
    "numeric.math",
    "cast.number",
    "cast.text_to_number",
    "cast.number_to_text",
    "text.position",
    "text.join",
    "text.edit",
    "text.quoting",
    "text.pattern",
    "text.regexp",
    "text.regexp_split",
    "text.all_matches",
    "text.bytes",
    "text.bytes_edit",
    "cast.text",
    "time.interval",
    "time.arithmetic",
    "time.truncate",
    "time.make",
    "time.overlaps",
    "time.extract",
    "time.zone",
    "time.to_char",
    "time.to_timestamp",
    "cast.time",
    "time.milliseconds",
    "time.precision",
    "json.access",
    "json.containment",
    "json.edit",
    "json.change",
    "json.jsonpath",
    "json.elements",
    "json.build",
    "json.order",
    "cast.json",
    "nested.array",
    "nested.elements",
    "nested.array_text",
    "nested.order",
    "nested.record",
    "nested.series",
    "nested.unnest",
    "cast.nested",
    "aggregate.lists",
    "aggregate.sums",
)

for _subject in SUBJECTS:
    import_module(f"{__name__}.{_subject}")

from tidegate.expr.functions.aggregate.sums import GROUP_DIGITS  # noqa: E402  # after all subjects, in their order
from tidegate.expr.functions.boolean.logic import and_  # noqa: E402  # after all subjects, in their order
from tidegate.expr.functions.json.access import PATHS  # noqa: E402  # after all subjects, in their order
from tidegate.expr.functions.number.arithmetic import FLOAT_OVERFLOW  # noqa: E402  # after all subjects, in their order
from tidegate.expr.functions.text.pattern import like_infix, parse_like  # noqa: E402  # after all subjects, in their order

__all__ = ["FLOAT_OVERFLOW", "GROUP_DIGITS", "PATHS", "and_", "like_infix", "parse_like"]
