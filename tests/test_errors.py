"""What a user reads when something is wrong."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate import BindError, ErrorCode, EvaluationError, PlanError, Position, TidegateError
from tidegate.text import EXCERPT


def show(sql: str, start: int, end: int | None = None) -> str:
    return str(BindError("no", position=Position(sql, start, start + 1 if end is None else end)))


def test_message_position_and_hint() -> None:
    error = BindError(
        'column "prise" does not exist', position=Position("SELECT prise FROM t", 7, 12), hint="try price"
    )
    assert str(error).split("\n") == [
        'column "prise" does not exist',
        "line 1, column 8:",
        "    SELECT prise FROM t",
        "           ^^^^^",
        "hint: try price",
    ]
    assert (error.line, error.column) == (1, 8)


@pytest.mark.parametrize(
    ("sql", "start", "end", "expected"),
    [
        ("a\nb c\nd", 4, 5, "line 2, column 3:\n    b c\n      ^"),
        ("a\r\nb c\r\nd", 5, 6, "line 2, column 3:\n    b c\n      ^"),
        ("\tx\ty", 3, 4, "line 1, column 4:\n     x y\n       ^"),  # a tab is shown as one space
        ("SELECT 1 +  \n", 99, 100, "line 1, column 11:\n    SELECT 1 +\n              ^"),
        ("SELECT 1", 7, 999, "line 1, column 8:\n    SELECT 1\n           ^"),
        ("SELECT (1\n+ 2)", 7, 14, "line 1, column 8:\n    SELECT (1\n           ^^"),
        ("日本 x", 3, 4, "line 1, column 4:\n    日本 x\n         ^"),  # two cells each
        (
            "a\x1b[31m x",
            7,
            8,
            "line 1, column 8:\n    a?[31m x\n           ^",
        ),  # no escape reaches the terminal
        ("abc", -5, -2, "line 1, column 1:\n    abc\n    ^"),
        ("abc", 2, 0, "line 1, column 3:\n    abc\n      ^"),
        ("", 0, 0, "line 1, column 1"),
        (" \n ", 7, 8, "line 1, column 1"),
    ],
)
def test_positions(sql: str, start: int, end: int, expected: str) -> None:
    assert show(sql, start, end) == "no\n" + expected


def test_a_wide_line_is_cut_around_the_caret() -> None:
    sql = "x" * 1_000_000 + "HERE" + "y" * 1_000_000
    _, where, line, carets = show(sql, 1_000_000, 1_000_004).split("\n")
    assert where == "line 1, column 1000001:"
    assert len(line) <= EXCERPT + 4
    assert line[carets.index("^") :].startswith("HERE")
    assert carets.count("^") == 4
    assert line.strip()[0] == line[-1] == "…"


@given(
    st.text(st.sampled_from("ab \n\t日\u0301\0"), max_size=300), st.integers(-5, 310), st.integers(-5, 310)
)
def test_any_position_of_any_text(sql: str, start: int, end: int) -> None:
    lines = show(sql, start, end).split("\n")
    assert len(lines) in (2, 4)
    if len(lines) == 4:
        assert max(len(lines[2]), 4) <= EXCERPT + 4
        assert "^" in lines[3]
        assert lines[2].isprintable()


def test_a_row_is_named_and_cut() -> None:
    row: dict[str, object] = {"a": None, "b": "it's\n" + "x" * 999, "c": 3} | {f"d{i}": i for i in range(99)}
    text = str(EvaluationError("division by zero", row=row))
    assert "in the row a = NULL, b = 'it''s xxx" in text
    assert "c = 3" in text
    assert text.endswith("and 82 more columns")
    assert len(text) < 1_000


def test_a_plan_error_names_the_construct_once() -> None:
    assert str(PlanError("only an MFP can run here", construct="GROUP BY")).endswith("in the way: GROUP BY")
    assert str(PlanError("GROUP BY cannot run here", construct="GROUP BY")) == "GROUP BY cannot run here"


def test_a_huge_message_is_cut() -> None:
    assert len(str(TidegateError("x" * 10_000_000, hint="y" * 10_000_000))) < 5_000


@pytest.mark.parametrize(
    "error",
    [
        EvaluationError("e", row={"a": 1}, hint="h", position=Position("SELECT 1", 0, 6)),
        PlanError("p", construct="JOIN", position=Position("SELECT 1", 0, 6)),
    ],
)
def test_errors_travel(error: TidegateError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def test_an_unknown_upstream_is_named_with_those_that_exist() -> None:
    with (
        tidegate.open("memory://") as db,
        pytest.raises(tidegate.BindError, match="no upstream FOO") as caught,
    ):
        db.sql("CREATE SOURCE x FROM FOO")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(
        "there are FILES, GENERATOR, KAFKA, POSTGRES"
    )  # a test may have registered more


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("division by zero", ErrorCode.DIVISION_BY_ZERO),
        ('invalid input syntax for type integer: "division by zero"', ErrorCode.INVALID_LITERAL),
        ('invalid input syntax for type timestamp with time zone: "x"', ErrorCode.INVALID_DATETIME),
        ('date/time field value out of range: "2024-13-45"', ErrorCode.DATETIME_OVERFLOW),
        ('value "70000" is out of range for type smallint', ErrorCode.NUMBER_OVERFLOW),
        ('"out of range" means another time whenever it is read', None),
    ],
)
def test_a_row_error_has_a_code_that_its_values_do_not_decide(message: str, code: ErrorCode | None) -> None:
    assert EvaluationError(message).code is code
