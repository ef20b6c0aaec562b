"""Work on several threads at once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds after which a thread that has not ended hangs.
PATIENCE_S = 120


@contextmanager
def running(work: Callable[[int], object], count: int) -> Iterator[None]:
    """Threads that work while the body runs; each is given its number, from 0 on.

    Raises:
        AssertionError: one of them has not ended.
        Exception: what one of them has raised.
    """
    raised: list[Exception] = []

    def run(number: int) -> None:
        try:
            work(number)
        except Exception as error:  # noqa: BLE001 - it is raised below
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)
    for error in raised:
        raise error


def on_threads(work: Callable[[int], object], count: int) -> None:
    """Let threads work, each given its number, until all have ended; raises as `running`."""
    with running(work, count):
        pass
