"""Philox4x32-10 against the vectors that Random123 publishes."""

from __future__ import annotations

import numpy as np
import pytest

from fuser.ir.philox import philox4x32, random_bits

ONES = 0xFFFFFFFF
#: counter, key, words: the lines `philox4x32 10` of Random123's kat_vectors.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    """Salmon et al. 2011, as the library's own tests have them."""
    a, b, c, d = (np.array([word], np.uint64) for word in counter)
    low, high = (np.array([word], np.uint64) for word in key)
    found = philox4x32((a, b, c, d), (low, high))
    assert tuple(int(word[0]) for word in found) == words


def test_places_take_the_words_of_their_counter() -> None:
    """Four places a counter; any unsigned dtype; the seed is the key."""
    found = random_bits(np.arange(4, dtype=np.uint8), np.zeros(4, np.uint8))
    assert found.dtype == np.uint32
    assert tuple(map(int, found)) == VECTORS[0][2]
    far = np.uint64(2**40 + 3)
    counter = [np.array([int(far) >> 2], np.uint64), *(np.zeros(1, np.uint64) for _ in range(3))]
    counter[:2] = [counter[0] & np.uint64(ONES), counter[0] >> np.uint64(32)]
    key = (np.array([7], np.uint64), np.array([1], np.uint64))
    words = philox4x32((counter[0], counter[1], counter[2], counter[3]), key)
    assert random_bits(far, np.uint64(2**32 + 7)) == words[3][0]
