"""Counters: added at once or soon, read whole."""


from fuser.base import counters
from tests.threads import on_threads


def test_what_is_added_soon_is_there_when_read() -> None:
    """By name and in the copy of all."""
    before = counters.value("apples")
    counters.add_soon({"apples": 2, "pears": 1})
    counters.add({"apples": 3})
    counters.count("apples")
    assert counters.value("apples") == before + 6
    assert counters.snapshot()["apples"] == before + 6


def test_no_count_is_lost_between_threads() -> None:
    """More than may wait, from several threads."""
    before, counts = counters.value("plums"), {"plums": 1}

    def add(_: int) -> None:
        for _ in range(5000):
            counters.add_soon(counts)

    on_threads(add, 4)
    assert counters.value("plums") == before + 20000
    assert not counters._pending
