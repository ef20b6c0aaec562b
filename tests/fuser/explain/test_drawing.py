"""Drawings of plans: well-formed, with every kernel, array and number of bytes."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.explain.drawing import SMALL_LETTER, Picture, picture_of, to_dot, to_svg
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
    svg = found.to_svg()
    root = ElementTree.fromstring(svg)
    texts = "\n".join(element.text or "" for element in root.iter() if element.tag[-4:] == "text")
    for box in picture.boxes:
        for line in box.lines:
            assert line in texts
    dot = found.to_dot()
    assert dot.count("->") == len(picture.arrows)
    assert "<svg" in found._repr_html_()
    assert svg == fuser.fuse(function, fallback="allow").explain(X).to_svg()


def test_bytes_on_arrows_add_up() -> None:
    """All that kernels read and write is the planned bytes."""
    found = fuser.fuse(centred).explain(X)
    assert found._spec is not None
    assert found.ledger is not None
    picture = picture_of(found._spec, found._sizes)
    assert sum(arrow.size_bytes for arrow in picture.arrows) == found.ledger.planned_bytes


def test_boxes_do_not_overlap() -> None:
    """Every box has a place of its own inside the picture."""
    root = ElementTree.fromstring(fuser.fuse(centred).explain(X).to_svg())
    width, height = (float(root.get(name, "0")) for name in ("width", "height"))
    places = [
        tuple(float(element.get(name, "0")) for name in ("x", "y", "width", "height"))
        for element in root.iter()
        if element.tag.endswith("rect") and element.get("stroke")
    ]
    assert len(places) > 4
    for k, (x, y, wide, high) in enumerate(places):
        assert 0 <= x < x + wide <= width
        assert 0 <= y < y + high <= height
        for a, b, c, d in places[:k]:
            assert x + wide <= a or a + c <= x or y + high <= b or b + d <= y


def test_nothing_to_draw() -> None:
    """A call that is not fused has an empty picture."""
    assert to_dot(Picture((), ())).startswith("digraph plan {")
    assert ElementTree.fromstring(to_svg(Picture((), ()))) is not None


def test_a_browser_shows_it(tmp_path: Path) -> None:
    """Chromium renders the drawing: there is ink on the page."""
    chromium = require("chromium")
    page, shot = tmp_path / "plan.svg", tmp_path / "plan.png"
    page.write_text(fuser.fuse(centred).explain(X).to_svg())
    subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={shot}",
         "--window-size=900,900", page.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert re.match(rb"\x89PNG", shot.read_bytes())
    assert shot.stat().st_size > 8_000


def refused(x: Any) -> Any:
    """Python looks at every element."""
    return x if 7 in x else -x


def test_a_call_that_is_not_fused_says_why() -> None:
    """One box with the function, what it does, and the reason's code; in a notebook too."""
    found = fuser.fuse(refused, fallback="allow").explain(X)
    assert found.fallbacks
    texts = "".join(ElementTree.fromstring(found.to_svg()).itertext())
    assert "refused in NumPy" in texts
    assert "control-flow" in texts
    assert "<svg" in found._repr_html_()


def test_bytes_stand_side_by_side() -> None:
    """Texts on the arrows that come into a narrow box do not cover each other."""
    found = fuser.fuse(lambda x, y, z, w: x * y * z * w).explain(*[np.ones((1000, 1000))] * 4)
    root = ElementTree.fromstring(found.to_svg())
    small = [each for each in root.iter() if each.get("text-anchor") == "middle"]
    places = sorted((float(each.get("y", "0")), float(each.get("x", "0"))) for each in small)
    assert len(places) == 5, "four come in, one goes out"
    wide = len("8,000,000 B") * SMALL_LETTER
    for (above, left), (below, right) in pairwise(places):
        assert above != below or right - left >= wide


def test_values_between_kernels_have_their_names() -> None:
    """What NumPy gives is called as in the text: by the function and the line."""
    found = fuser.fuse(sorted_between, fallback="allow").explain(X)
    assert "= np.sort#1" in found.to_svg()
    assert "np.sort#1" in str(found)


def joined(x: Any) -> Any:
    """Two kernels' loops write parts of one array."""
    return np.concatenate([x * 2, np.exp(x)])


def test_a_joined_result_has_its_own_shape() -> None:
    """The box is of the whole array, not of the part that is written first."""
    found = fuser.fuse(joined).explain(X)
    assert "= concatenate#1" in found.to_svg()
    assert "1,600 bytes" in found.to_svg()


def test_many_arrays_alike_are_one_box() -> None:
    """Forty arguments of one kernel do not make a drawing of nine thousand pixels."""
    found = fuser.fuse(lambda *a: sum(np.exp(x) for x in a)).explain(*[X] * 40)
    root = ElementTree.fromstring(found.to_svg())
    assert float(root.get("width", "0")) < 1000
    assert "40 arrays in all" in "".join(root.itertext())
    assert found.ledger is not None
    picture = picture_of(found._spec, found._sizes)  # type: ignore[arg-type]
    assert sum(arrow.size_bytes for arrow in picture.arrows) == found.ledger.planned_bytes
