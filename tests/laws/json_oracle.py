"""JSON statistics by a plain loop over decoded documents: the oracle for `storage/stats/json`, and boxes for laws.

domain_of_documents([['{"a": 1}', '{"a": "x", "b": 2}'], ['7']])     # two containers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
import pyarrow as pa

from tidegate.expr.domain.json_domain import JsonDomain, JsonRange, round_bound
from tidegate.expr.domain.specs import Specs
from tidegate.expr.model.types import JSONB, NUMERIC
from tidegate.expr.primitives.json import exact as exact_json
from tidegate.expr.primitives.json.exact import Json


def specs_of_documents(containers: Sequence[Sequence[str | None]]) -> Specs:
    """A jsonb column whose containers hold just these documents (None: NULL), as statistics describe it."""
    null = np.array([None in documents for documents in containers], bool)
    present = [[text for text in documents if text is not None] for documents in containers]
    empty = np.array([not documents for documents in present], bool)
    return Specs.ranged(JSONB, None, None, null=null, empty=empty, json=domain_of_documents(present))


def domain_of_documents(containers: Sequence[Sequence[str]]) -> JsonDomain:
    """The domain of containers that hold just these documents."""
    return _domain([[exact_json.decode(text) for text in container] for container in containers])


def _domain(containers: Sequence[Sequence[Json]]) -> JsonDomain:
    names = dict.fromkeys(
        name for values in containers for value in values if isinstance(value, dict) for name in value
    )
    return JsonDomain(
        null=_any(containers, lambda v: v is None),
        true=_any(containers, lambda v: v is True),
        false=_any(containers, lambda v: v is False),
        number=_number_range(containers),
        text=_text_range(containers),
        list=_any(containers, lambda v: isinstance(v, list)),
        map=_any(containers, lambda v: isinstance(v, dict)),
        keys={name: _key(containers, name) for name in names},
    )


def _key(containers: Sequence[Sequence[Json]], name: str) -> Specs:
    held = [[v[name] for v in values if isinstance(v, dict) and name in v] for values in containers]
    absent = _any(containers, lambda v: isinstance(v, dict) and name not in v)
    empty = np.array([not values for values in held], bool)
    return Specs.ranged(JSONB, None, None, null=absent, empty=empty, json=_domain(held))


def _any(containers: Sequence[Sequence[Json]], test: Callable[[Json], bool]) -> np.ndarray:
    return np.array([any(map(test, values)) for values in containers], bool)


def _number_range(containers: Sequence[Sequence[Json]]) -> JsonRange:
    numbers = [[v for v in values if isinstance(v, Decimal)] for values in containers]
    low = [round_bound(min(values), ROUND_FLOOR) if values else None for values in numbers]
    high = [round_bound(max(values), ROUND_CEILING) if values else None for values in numbers]
    return JsonRange(
        np.array([bool(v) for v in numbers], bool),
        pa.array(low, NUMERIC.arrow),
        pa.array(high, NUMERIC.arrow),
        np.array([all(v == v.to_integral_value() for v in values) for values in numbers], bool),
    )


def _text_range(containers: Sequence[Sequence[Json]]) -> JsonRange:
    texts = [[v for v in values if isinstance(v, str)] for values in containers]
    low = [min(values, default=None) for values in texts]
    high = [max(values, default=None) for values in texts]
    return JsonRange(
        np.array([bool(v) for v in texts], bool), pa.array(low, pa.string()), pa.array(high, pa.string())
    )
