"""Every knob of Tidegate, each on one line with its type, meaning and default.

A `Config` is a value: it is handed down to whoever needs a knob, and changed by making another.

    Config().max_nesting   # 400
    dataclasses.replace(Config(), max_nesting=50)
    Config.meanings()      # {'max_nesting': 'levels of …'}: what SHOW and the docs print

A knob is here when code reads it, and not before.
"""

from dataclasses import dataclass
from typing import Annotated, get_type_hints


@dataclass(frozen=True, slots=True)
class Config:
    """The knobs. The meaning of each stands in its annotation, so that SHOW and the docs can print it."""

    # Well below Python's own limit of 1,000 frames: it is we who refuse, with a message that says where.
    max_nesting: Annotated[int, "levels of nested SQL or JSON beyond which a LimitError is raised"] = 400

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """What each knob means, by name, in the order of declaration."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: hint.__metadata__[0] for name, hint in hints.items()}


MAX_NESTING = Config().max_nesting  # the default, for code that is handed no Config, such as a constructor
