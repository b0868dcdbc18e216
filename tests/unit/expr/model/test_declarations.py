"""A declaration of a function: typed claims, aliases and overloads as rows."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.expr.domain.specs import Specs
from tidegate.expr.model import function as declarations
from tidegate.expr.model.function import (
    NEVER,
    UP,
    BoundTransfer,
    Claims,
    Function,
    FunctionRegistry,
    cast,
    scalar,
)
from tidegate.expr.model.types import INT4, INT8, TEXT, Type

ROOT = Path(declarations.__file__).parents[4]
PLANTED = """
from functools import partial
from tidegate.expr.model.function import NEVER, UP, Claims, cast, scalar
from tidegate.expr.model.types import INT4, TEXT

scalar("f", (INT4,), INT4, errors=NEVER, trend=(UP,), stable=True)
scalar("f", (INT4,), INT4, erors=NEVER)
scalar("f", (INT4,), INT4, stable="yes")
scalar("f", (INT4,), INT4, trend=UP)
cast(INT4, TEXT, implict=True)
partial(scalar, stabel=True)
partial(scalar, stable=True)("f", (INT4,), INT4, cost=7)
shared: Claims = {"lenent": True}
"""
MISTAKES = {7: "erors", 8: "stable", 9: "trend", 10: "implict", 11: "stabel", 12: "cost", 13: "lenent"}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FunctionRegistry:
    list(declarations.REGISTRY)  # imports the declarations, which else would land in the empty registry
    empty = FunctionRegistry()
    monkeypatch.setattr(declarations, "REGISTRY", empty)
    return empty


def test_mypy_rejects_a_misspelt_claim_and_a_wrong_value(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(PLANTED)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(planted)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = {}
    for line in found.stdout.splitlines():
        place, _, message = line.partition(": error: ")
        if message:
            errors[int(place.rsplit(":", 1)[1])] = message
    assert set(errors) == set(MISTAKES), found.stdout + found.stderr
    for number, word in MISTAKES.items():
        assert word in errors[number]


def test_claims_are_fields_of_a_function() -> None:
    fields = {field.name for field in dataclasses.fields(Function)}
    made_by_the_declaration = {"name", "params", "result", "kernel", "wants_out", "wants_types"}
    assert set(Claims.__annotations__) == fields - made_by_the_declaration


def test_every_name_gets_every_signature_in_order(registry: FunctionRegistry) -> None:
    @scalar("f", (TEXT,), INT4, aliases=("g",), overloads=[((INT8,), INT8)], errors=NEVER, trend=(UP,))
    def kernel(a: object, out: Type) -> object:
        """The first line."""
        return a

    for name in ("f", "g"):
        assert [f.signature for f in registry.overloads(name)] == [
            f"{name}(text) -> int4",
            f"{name}(int8) -> int8",
        ]
    for function in registry:
        assert (function.kernel, function.errors, function.trend) == (kernel, NEVER, (UP,))
        assert (function.doc, function.wants_out, function.wants_types) == ("The first line.", True, False)


def test_casts_go_from_every_source_to_every_target(registry: FunctionRegistry) -> None:
    cast((INT4, INT8), (TEXT, INT4), implicit=True)(lambda a: a)
    pairs = [(source.value, target.value) for (source, target), _ in registry.casts()]
    assert pairs == [("int4", "text"), ("int4", "int4"), ("int8", "text"), ("int8", "int4")]


def test_one_signature_is_declared_once(registry: FunctionRegistry) -> None:
    declare = scalar("f", (TEXT,), INT4, overloads=[((TEXT,), INT8)])
    with pytest.raises(TypeError, match=r"f\(text\) -> int8 is declared twice"):
        declare(lambda a: a)


def test_a_bound_transfer_receives_the_declared_function(registry: FunctionRegistry) -> None:
    @BoundTransfer
    def transfer(function: Function, out: Type, a: Specs) -> Specs:
        inner = function.claiming((UP,))
        assert (inner.kernel, inner.trend, inner.errors, inner.transfer) == (kernel, (UP,), NEVER, None)
        return Specs.anything(out)

    @scalar("f", (INT4,), INT4, transfer=transfer)
    def kernel(a: object) -> object:
        return a

    (function,) = registry.overloads("f")
    assert function.transfer is not None
    assert function.transfer(INT4, Specs.anything(INT4)).type == INT4


def test_a_declaration_without_a_signature_is_refused() -> None:
    with pytest.raises(TypeError, match="f is declared without a signature"):
        scalar("f", (INT4,))
