"""Every block of every golden file, and the runner itself."""

import pytest

from tests.golden.runner import Block, files, parse, rewrite

CASES = [
    pytest.param(block, id=f"{path.name}:{block.line}")
    for path in files()
    for block in parse(path.read_text("utf-8"))
]


@pytest.mark.parametrize("block", CASES)
def test_golden(block: Block) -> None:
    assert block.actual() == block.expected


def test_rewrite_replaces_outputs_only() -> None:
    stale = "# c\necho a\nb\n\nc d\n----\nold\nolder\n\n\necho x\n----\n\necho y\n----\nz\n"
    with pytest.raises(AssertionError, match="blank line"):
        rewrite(stale)
    fresh = rewrite(stale.replace("b\n\nc", "b\nc"))
    assert fresh == "# c\necho a\nb\nc d\n----\na\nb\nc d\n\n\necho x\n----\nx\n\necho y\n----\ny\n"
    assert rewrite(fresh) == fresh


def test_a_file_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="line 3"):
        parse("\n# c\necho a\nb\n")
