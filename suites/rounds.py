"""Rounds: things timed turn by turn, so shortly after each other that they meet the same machine.

A shared machine's speed wanders by half within seconds. So what is compared is compared within
a round of a few milliseconds, as shares of that round's whole, and the rounds give one number: the
mean of the middle half. How far the parts are from the whole is judged in the same rounds.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Round = Mapping[str, float]
Form = Mapping[str, float]
"""How often each timed thing counts: `{"many": 1, "few": -1}` is the one less the other."""


@dataclass(frozen=True, slots=True)
class ClosedSum:
    """Parts beside their whole.

    Attributes:
        parts_s: seconds of each part.
        whole_s: seconds of the whole.
        unexplained_s: the parts' sum less the whole.
        low_s: where the interval of the unexplained begins (95%, by the order of the rounds).
        high_s: where it ends.
    """

    parts_s: dict[str, float]
    whole_s: float
    unexplained_s: float
    low_s: float
    high_s: float

    def fields(self) -> dict[str, object]:
        """Return what the record keeps of it."""
        return {
            "parts_s": self.parts_s, "whole_s": self.whole_s,
            "unexplained_s": [self.low_s, self.unexplained_s, self.high_s],
        }


def timed_rounds(
    names: Sequence[str], seconds_of: Callable[[str], float], count: int
) -> list[dict[str, float]]:
    """Time each name once a round, in random order: none is always behind the same neighbour."""
    order, chance = list(names), random.Random(0)
    rounds = []
    for _ in range(count):
        chance.shuffle(order)
        rounds.append({name: seconds_of(name) for name in order})
    return rounds


def closed_sum(rounds: Sequence[Round], parts: Mapping[str, Form], whole: str) -> ClosedSum:
    """Return the parts, the whole and what is between them, of the same rounds.

    The slower half of the rounds is left out: in them something else ran. Of the others each
    part is a share of its round's whole, whatever the machine's speed was in that round.

    Args:
        rounds: seconds by name; a name that is missing in a round took no time there.
        parts: how each part is had from what was timed.
        whole: the name of the whole.
    """
    quiet = sorted(rounds, key=lambda each: sum(each.values()))[: (len(rounds) + 1) // 2]
    shares = [
        {part: _value(form, each) / each[whole] for part, form in parts.items()}
        for each in quiet
    ]
    shares.sort(key=lambda each: sum(each.values()))
    count = len(shares)
    middle = shares[count // 4 : count - count // 4]
    whole_s = median(each[whole] for each in quiet)
    parts_s = {
        part: whole_s * sum(each[part] for each in middle) / len(middle) for part in parts
    }
    # the median's interval: a sign test over the rounds
    reach = 0.98 * count**0.5
    first, last = max(0, int(count / 2 - reach)), min(count - 1, int(count / 2 + reach))
    low, high = (sum(shares[place].values()) - 1 for place in (first, last))
    return ClosedSum(
        parts_s, whole_s, sum(parts_s.values()) - whole_s, low * whole_s, high * whole_s
    )


def _value(form: Form, each: Round) -> float:
    return sum(often * each.get(name, 0.0) for name, often in form.items())
