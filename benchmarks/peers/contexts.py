"""The same contexts for every side: token ids as a tokenizer hands them over, in plain lists."""

from __future__ import annotations

import random

PAGE = 64
"""Tokens of a page."""

TURN = 2048
"""Tokens of a turn: a conversation is published turn by turn, with a snapshot at the end of each."""

VOCABULARY = 150_000
TRUNKS = 100


def tokens(count: int, seed: int) -> list[int]:
    """Return that many token ids; equal seeds give equal tokens."""
    return random.Random(seed).choices(range(VOCABULARY), k=count)


def turn_ends(length: int) -> list[int]:
    """Return where the turns of a conversation of that length end, the last one at its length."""
    return [*range(TURN, length, TURN), length]


def trunk(number: int) -> list[int]:
    """Return the page that all leaves with `number` modulo TRUNKS share."""
    return tokens(PAGE, 1_000_000 + number % TRUNKS)


def leaf(number: int) -> list[int]:
    """Return a short context: a trunk's page and a page of its own, at whose end a snapshot stands."""
    return trunk(number) + tokens(PAGE, 2_000_000 + number)
