"""Tables and the short forms of the dispatcher's text."""

import pytest

from fuser.backends.cpu.machine import layout


def test_fields_have_the_same_places_on_both_sides() -> None:
    """A name in the text is the offset of the word that Python writes."""
    words = layout.words("TABLE", nargs=7, flags=3)
    assert words[layout.place("TABLE", "nargs")] == 7
    offset = 8 * layout.place("TABLE", "flags")
    assert f"i64 {offset}" in layout.spell_out("  %x = get i64 %table TABLE.flags")
    assert layout.spell_out("  %y = mul i64 %k, GUARD.size").strip().endswith(
        str(8 * len(layout.FIELDS["GUARD"]))
    )


def test_short_forms_are_two_instructions() -> None:
    """An address and an access; other lines stay as they are."""
    text = layout.spell_out("  set ptr %v %list 3\n  ret void")
    address, store, rest, end = text.split("\n")
    assert address == "  %m0 = getelementptr i64, ptr %list, i64 3"
    assert store == "  store ptr %v, ptr %m0"
    assert (rest, end) == ("  ret void", "")


def test_a_field_that_does_not_exist_is_an_error() -> None:
    """In the text as well as in tables."""
    with pytest.raises(ValueError, match="not in tuple"):
        layout.spell_out("  %x = get i64 %table TABLE.colour")
    with pytest.raises(AssertionError):
        layout.words("TABLE", colour=1)


def test_arrays_hold_rows_one_after_another() -> None:
    """An empty one has an address too."""
    assert list(layout.array([[1, 2], [3]])) == [1, 2, 3]
    assert layout.address(layout.array([]))
