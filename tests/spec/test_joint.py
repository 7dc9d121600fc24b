"""The joint hit is a fixed point that only shrinks: the deepest length that every group offers, and who cut it."""

import random

from milepost.spec.resume import Cut, deepest, joint


def test_it_is_the_deepest_length_that_all_offer() -> None:
    chance = random.Random(1)
    for _ in range(500):
        limit = chance.randint(0, 24)
        offered = {name: {n for n in range(1, 25) if chance.random() < 0.6} for name in "abcd"}
        length, cuts = joint(limit, {name: ns.__contains__ for name, ns in offered.items()})
        assert length == deepest(limit, [ns.__contains__ for ns in offered.values()])
        assert [cut.before for cut in cuts] == [limit, *(cut.after for cut in cuts)][: len(cuts)]
        assert all(cut.after < cut.before for cut in cuts)
        assert not cuts or cuts[-1].after == length


def test_who_was_asked_first_is_asked_again_when_another_has_cut() -> None:
    window, state = {16: True, 4: True}, {16: False, 8: True, 4: True}
    length, cuts = joint(16, {"window": lambda n: window.get(n, False), "state": lambda n: state.get(n, False)})
    assert length == 4
    assert cuts == (Cut("state", 16, 8), Cut("window", 8, 4))


def test_nothing_is_cut_where_all_agree() -> None:
    assert joint(7, {"kv": lambda n: True}) == (7, ())
    assert joint(7, {}) == (7, ())
    assert joint(0, {"kv": lambda n: False}) == (0, ())


def test_a_group_that_offers_nothing_leaves_nothing() -> None:
    assert joint(9, {"kv": lambda n: True, "window": lambda n: False}) == (0, (Cut("window", 9, 0),))
