"""What follows from facts of integers, and what does not."""

from __future__ import annotations

import itertools
import random

from fuser.element_loops.code import Length
from fuser.element_loops.facts import ZERO, State, Sum, Terms


def test_what_follows() -> None:
    """The middle of two indices lies between them: of integers, and with factors."""
    terms, state = Terms(), State({}, (), {})
    low, high, middle = terms.new(), terms.new(), terms.new()
    double = middle.times(2)
    both = low.plus(high)
    state.learn((high.plus(low, -1).more(-1), both.plus(double, -1), double.more(1).plus(both, -1)))
    assert terms.follows(middle.plus(low, -1), state)
    assert terms.follows(high.plus(middle, -1).more(-1), state)
    assert not terms.follows(low.plus(middle, -1), state)
    assert not terms.follows(high.plus(middle, -1).more(-2), state)


def test_a_question_is_proved_once_until_more_is_known() -> None:
    """States that know the same share what was proved, what a failed proof has left, too."""
    terms, state = Terms(), State({}, (), {})
    low, high = terms.new(code=Length(0, 0)), terms.new()
    goal = high.plus(low, -1)
    assert not terms.follows(goal, state)
    state.learn((high.plus(low, -1).more(-2),))
    assert terms.follows(goal, state)
    bound = ZERO.more(4).plus(low, -1)
    assert not terms.follows(bound, state)
    assert terms.left == bound
    assert terms.follows(goal, state.copy())
    terms.left = None
    assert not terms.follows(bound, State({}, state.facts, {}))
    assert terms.left == bound


def test_a_failed_proof_leaves_what_has_small_factors() -> None:
    """That is what may hold: three times a length is seldom below another one."""
    terms, state = Terms(), State({}, (), {})
    one, two = terms.new(code=Length(0, 0)), terms.new(code=Length(1, 0))
    index = terms.new()
    state.learn((index.plus(two, -1),))
    state.learn((index.plus(one, -3),))
    assert not terms.follows(index.more(-1), state)
    assert terms.left == two.more(-1)


def test_newer_terms_come_in_at_first_or_where_that_is_asked() -> None:
    """Of a long chain upwards short proofs see the beginning; others see it all."""
    terms, state = Terms(), State({}, (), {})
    chain = [terms.new() for _ in range(6)]
    state.learn(one.plus(next_, -1) for one, next_ in itertools.pairwise(chain))
    state.learn(chain[-1:])
    assert terms.follows(chain[-1], state)
    assert terms.follows(chain[3], state)
    assert not terms.follows(chain[0], state)
    assert terms.follows(chain[0], state, True)


def test_proofs_hold_for_all_integers() -> None:
    """Of random facts about three small integers, what follows is so wherever they are."""
    known = 0
    for seed in range(150):
        rng = random.Random(seed)
        terms = Terms()
        made = [terms.new(-3, 3) for _ in range(3)]

        def some(rng: random.Random = rng, made: list[Sum] = made) -> Sum:
            found = ZERO.more(rng.randint(-3, 3))
            for term in made:
                found = found.plus(term.times(rng.choice((-2, -1, 0, 0, 1, 2))))
            return found

        facts, goal = [some() for _ in range(4)], some()
        state = State({}, (), {})
        state.learn(facts)
        if terms.follows(goal, state):
            known += 1
            for numbers in itertools.product(range(-3, 4), repeat=3):
                if all(_value(fact, numbers) >= 0 for fact in facts if fact.factors):
                    assert _value(goal, numbers) >= 0
    assert known > 20


def _value(one: Sum, numbers: tuple[int, ...]) -> int:
    """What a sum is where its terms are so."""
    return one.rest + sum(factor * numbers[term] for term, factor in one.factors)


def test_where_two_ways_meet() -> None:
    """What holds of both is known, and between which sums a variable lies."""
    terms = Terms()
    start = terms.new()
    one, other = State({"i": start}, (start,), {}), State({"i": start.more(2)}, (start,), {})
    found = terms.joined([one, other])
    assert found is not None
    assert found.facts[0] == start
    assert terms.follows(found.values["i"].plus(start, -1), found)
    assert terms.follows(start.more(2).plus(found.values["i"], -1), found)
    assert not terms.follows(start.more(1).plus(found.values["i"], -1), found)
