"""Drawings of plans: with every kernel, array and number of bytes."""

import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import MissingProgramError
from fuser.explain.drawing import Picture, picture_of, to_dot
from tests.requirements import require

X = np.ones((10, 20), np.float32)


def centred(x: Any) -> Any:
    """Rows, then columns: a value is stored between."""
    x = x - x.mean(-1, keepdims=True)
    return x - x.mean(0), x[0]


def sorted_between(x: Any) -> Any:
    """NumPy runs between two kernels."""
    return np.sort(np.exp(x)) * 2


@pytest.mark.parametrize("function", [centred, sorted_between])
def test_drawings_show_the_plan(function: Any) -> None:
    """Each kernel and array is a box, each transfer an arrow with its bytes."""
    found = fuser.fuse(function, fallback="allow").explain(X)
    assert found._spec is not None
    picture = picture_of(found._spec, found._sizes)
    kernels = [box for box in picture.boxes if box.kind == "kernel"]
    assert len(kernels) == len(found.groups)
    assert any(box.kind == "result" for box in picture.boxes)
    for box in picture.boxes:  # in words, too: not everyone tells the colours apart
        if box.kind in ("argument", "result", "stored"):
            assert box.lines[1].startswith(f"{box.kind}: float32[")
    dot = found.to_dot()
    assert dot.count(" -> ") == len(picture.arrows)
    assert all(f"{line}\\l" in dot for box in picture.boxes for line in box.lines)
    assert dot == fuser.fuse(function, fallback="allow").explain(X).to_dot()
    require("graphviz")
    root = ElementTree.fromstring(found.to_svg())
    drawn = "".join(root.itertext()).replace("\xa0", " ")
    assert all(line in drawn for box in picture.boxes for line in box.lines)
    assert "<svg" in found._repr_html_()


def test_bytes_on_arrows_add_up() -> None:
    """All that kernels read and write is the planned bytes."""
    found = fuser.fuse(centred).explain(X)
    assert found._spec is not None
    assert found.ledger is not None
    picture = picture_of(found._spec, found._sizes)
    assert sum(arrow.size_bytes for arrow in picture.arrows) == found.ledger.planned_bytes


def test_nothing_to_draw() -> None:
    """A call that is not fused has an empty picture."""
    assert to_dot(Picture((), ())).startswith("digraph plan {")


def test_without_graphviz_a_drawing_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said, in a notebook above the text."""
    monkeypatch.setenv("PATH", "")
    found = fuser.fuse(centred).explain(X)
    with pytest.raises(MissingProgramError, match="apt install graphviz"):
        found.to_svg()
    assert found.to_dot().startswith("digraph plan {")
    assert "apt install graphviz" in found._repr_html_()
    assert "mode fused, 2 kernels" in found._repr_html_()


def refused(x: Any) -> Any:
    """Python looks at every element."""
    return x if 7 in x else -x


def test_a_call_that_is_not_fused_says_why() -> None:
    """One box with the function, what it does, and the reason's code."""
    found = fuser.fuse(refused, fallback="allow").explain(X)
    assert found.fallbacks
    assert "refused in NumPy" in found.to_dot()
    assert "control-flow" in found.to_dot()


def test_values_between_kernels_have_their_names() -> None:
    """What NumPy gives is called as in the text: by the function and the line."""
    found = fuser.fuse(sorted_between, fallback="allow").explain(X)
    assert "= np.sort#1" in found.to_dot()
    assert "np.sort#1" in str(found)


def joined(x: Any) -> Any:
    """Two kernels' loops write parts of one array."""
    return np.concatenate([x * 2, np.exp(x)])


def test_a_joined_result_has_its_own_shape() -> None:
    """The box is of the whole array, not of the part that is written first."""
    found = fuser.fuse(joined).explain(X)
    assert "= concatenate#1" in found.to_dot()
    assert "1,600 bytes" in found.to_dot()


def test_many_arrays_alike_are_one_box() -> None:
    """Forty arguments of one kernel do not make a drawing of forty boxes."""
    found = fuser.fuse(lambda *a: sum(np.exp(x) for x in a)).explain(*[X] * 40)
    assert "40 arrays in all" in found.to_dot()
    assert found.ledger is not None
    picture = picture_of(found._spec, found._sizes)  # type: ignore[arg-type]
    assert sum(arrow.size_bytes for arrow in picture.arrows) == found.ledger.planned_bytes
