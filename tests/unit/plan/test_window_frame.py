"""Frames of windows as SQL writes them."""

from __future__ import annotations

from tidegate.expr.model.build import literal
from tidegate.expr.model.types import INT8
from tidegate.plan.window_frame import FrameEnd, FrameSpec


def test_a_frame_in_sql() -> None:
    two = FrameEnd("preceding", literal(2, INT8))
    frame = FrameSpec("groups", two, FrameEnd("current row"), "ties")
    assert frame.sql(lambda d: f"<{d.value}>") == "GROUPS BETWEEN <2> PRECEDING AND CURRENT ROW EXCLUDE TIES"
    assert frame.has_distance


def test_a_frame_without_ends() -> None:
    frame = FrameSpec("rows", FrameEnd("preceding"), FrameEnd("following"))
    assert frame.sql(str) == "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    assert not frame.has_distance
