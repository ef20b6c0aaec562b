"""Counter-based random numbers: Philox4x32-10. A number depends on its seed and place alone.

Source:
    Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section
    3.3; the constants are those of the paper's Philox-4x32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Multipliers of the rounds, and what the two words of the key grow by after each.
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
#: Words that one counter gives.
WORDS = 4

Array = np.ndarray[Any, np.dtype[Any]]
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox4x32(
    counter: tuple[Array, Array, Array, Array], key: tuple[Array, Array]
) -> tuple[Array, Array, Array, Array]:
    """Four random words for every counter and key.

    Args:
        counter: four arrays uint64[...] of 32-bit words, least significant first.
        key: two of them.
    """
    a, b, c, d = counter
    low, high = key
    first, second = map(np.uint64, MULTIPLIERS)
    for turn in range(ROUNDS):
        if turn:
            low, high = (low + np.uint64(WEYL[0])) & _LOW, (high + np.uint64(WEYL[1])) & _LOW
        x, y = a * first, c * second
        a, b, c, d = (y >> _HALF) ^ b ^ low, y & _LOW, (x >> _HALF) ^ d ^ high, x & _LOW
    return a, b, c, d


def random_bits(index: Any, seed: Any) -> Any:
    """The row of the op table: 32 random bits at a place of the stream that a seed names.

    Args:
        index: unsigned integers: places in the stream.
        seed: unsigned integers of the same shape.

    Returns:
        uint32: word `index % 4` of the counter `index // 4`, with the seed as the key.
    """
    place, name = (np.asarray(value).astype(np.uint64) for value in (index, seed))
    counter = place >> np.uint64(2)
    zero = np.zeros_like(counter)
    words = philox4x32(
        (counter & _LOW, counter >> _HALF, zero, zero), (name & _LOW, name >> _HALF)
    )
    word = place & np.uint64(3)
    chosen = np.where(word < 2, np.where(word == 0, words[0], words[1]),
                      np.where(word == 2, words[2], words[3]))  # fmt: skip
    return chosen.astype(np.uint32)[()]
