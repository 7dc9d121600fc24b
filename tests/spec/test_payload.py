"""A payload is the digest of all that a model's memory depends on, and of nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost.spec.payload import GARBAGE, ZERO, find_provenance, make_stream

tokens = st.lists(st.integers(0, 300), max_size=12).map(tuple)
Pairs = tuple[tuple[str, str], ...]


def digests(text: tuple[int, ...], space: Pairs = (), epoch: int = 0, **content: str) -> tuple[int, ...]:
    return make_stream(space, epoch, text, {int(at[1:]): one for at, one in content.items()}).digests


@given(tokens, tokens)
def test_equal_prefixes_share_their_digests_and_different_ones_share_none(one: tuple[int, ...], two: tuple[int, ...]
                                                                          ) -> None:
    shared = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    first, second = digests(one), digests(two)
    assert first[: shared + 1] == second[: shared + 1]
    assert not set(first[shared + 1 :]) & set(second[shared + 1 :])


@given(tokens)
def test_every_length_has_a_digest_of_its_own(text: tuple[int, ...]) -> None:
    found = digests(text)
    assert len(set(found)) == len(found) == len(text) + 1


@given(tokens)
def test_a_digest_is_never_taken_for_zeros_or_garbage(text: tuple[int, ...]) -> None:
    assert all(one > ZERO > GARBAGE and one < 1 << 63 for one in digests(text))


@given(tokens, st.sampled_from([(("salt", "x"),), (("salt", "y"),), (("adapter", "x"),), (("salt", ""),)]))
def test_a_namespace_changes_every_digest(text: tuple[int, ...], space: Pairs) -> None:
    assert not set(digests(text)) & set(digests(text, space))


def test_values_of_different_kinds_are_different() -> None:
    assert digests((1,), (("salt", "x"),)) != digests((1,), (("adapter", "x"),))
    assert digests((1,), (("salt", "x"), ("adapter", "y"))) != digests((1,), (("salt", "y"), ("adapter", "x")))


def test_a_namespace_is_a_set() -> None:
    one, two = ("salt", "x"), ("adapter", "y")
    assert digests((1,), (one, two)) == digests((1,), (two, one)) == digests((1,), (one, two, one))


@given(tokens)
def test_an_epoch_changes_every_digest(text: tuple[int, ...]) -> None:
    assert not set(digests(text, epoch=0)) & set(digests(text, epoch=1))


def test_an_identity_takes_the_place_of_a_token() -> None:
    placeholders = (7, 7, 7)
    assert digests(placeholders, _1="cat")[:2] == digests(placeholders)[:2]
    assert not set(digests(placeholders, _1="cat")[2:]) & set(digests(placeholders)[2:])
    assert digests(placeholders, _1="cat") != digests(placeholders, _1="dog")
    assert digests((7, 8, 7), _1="cat") == digests((7, 9, 7), _1="cat")


def test_an_identity_that_reads_like_a_token_is_none() -> None:
    assert digests((7,), _0="7") != digests((7,))
    assert digests((1, 2), _0="1") != digests((1, 2))
    assert digests((7, 7), _0="a','b") != digests((7, 7), _0="a", _1="b")


def test_provenance_names_the_first_request_that_had_a_prefix() -> None:
    one, two = make_stream((), 0, (1, 2, 3)), make_stream((), 0, (1, 2, 4))
    streams = [("r1", one), ("r2", two)]
    shared = find_provenance(streams, two.digests[2])
    assert shared is not None and (shared.request, shared.length) == ("r1", 2)
    own = find_provenance(streams, two.digests[3])
    assert own is not None and (own.request, own.length, own.stream) == ("r2", 3, two)


def test_bytes_that_no_forward_wrote_have_no_provenance() -> None:
    assert find_provenance([("r1", make_stream((), 0, (1, 2)))], 12345) is None
    assert find_provenance([], make_stream((), 0, (1,)).digests[1]) is None
