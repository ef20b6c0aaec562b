"""Memory speed: sizes follow the caches, bytes are those that the passes move."""

from fuser.suites import ceilings


def test_working_sets_are_inside_and_beyond() -> None:
    """Half of a core's cache, four times the last level, and bounded."""
    assert ceilings.working_sets({"L2": 1 << 20, "L3": 8 << 20}) == (512 << 10, 32 << 20)
    assert ceilings.working_sets({})[1] <= ceilings.MOST_BYTES
    assert ceilings.working_sets({"L3": 1 << 30})[1] == ceilings.MOST_BYTES


def test_copy_and_triad_count_their_bytes() -> None:
    """Copy moves two arrays, triad five in two passes; all cores only beyond the cache."""
    found = ceilings.measure({"L2": 64 << 10, "L3": 1 << 20}, 2, process=4, samples=2)
    kinds = {(each["name"], each["threads"], each["working_set_bytes"] > 1 << 20) for each in found}
    assert kinds == {
        (name, threads, beyond)
        for name in ("copy", "triad")
        for threads, beyond in ((1, False), (1, True), (2, True))
    }
    for each in found:
        arrays, moved = (2, 2) if each["name"] == "copy" else (3, 5)
        assert each["bytes_moved"] * arrays == each["working_set_bytes"] * moved
        assert len(each["seconds"]) == 2
        assert each["process"] == 4
