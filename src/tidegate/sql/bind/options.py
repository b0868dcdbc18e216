"""Values of WITH options: a length of time in quotes becomes milliseconds."""

import pyarrow as pa

from tidegate.errors import BindError, Position, TidegateError
from tidegate.expr.evaluate import evaluate
from tidegate.expr.model import build, order, types
from tidegate.sql.parse import statement
from tidegate.text import literal


def interval_milliseconds(option: statement.Option, sql: str) -> int:
    """A length of time: an interval in quotes, or a number of milliseconds."""
    value, position = option.value, Position(sql, *option.at)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    try:
        length = evaluate(build.cast(build.text(str(value)), types.INTERVAL), [], 1)
        if isinstance(value, str) and length.errors is None:
            micros: int = order.interval_key(length.values)[0].as_py()
            if micros >= 0:
                return micros // 1000
    except (TidegateError, pa.ArrowException):
        pass
    message = f"{option.name.upper()} needs a value: a length of time"
    if not option.bare:
        message = f"{literal(value)} is not a length of time"
    raise BindError(message, hint="such as '30 days'", position=position)
