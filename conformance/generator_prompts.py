"""Prompts that share prefixes, and lengths that lie on boundaries or one token beside them."""

from __future__ import annotations

from dataclasses import dataclass, field

from milepost.conformance.choosers import Chooser
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.geometry import boundary_grid
from milepost.spec.words import GroupKind, Namespace

LETTERS = tuple(map(ord, "abcd"))
PICTURE = ord("#")
ROLL = 31
"""The usual factor of a rolling hash."""
FIRST_FRESH = ord("A")
LONGEST_IN_BOUNDARIES = 8


@dataclass(frozen=True, slots=True)
class Sizes:
    """What lengths are measured by: `grids` for the bias, the `usual` and the `longest` prompt.

    All lengths are in tokens. The longest prompt takes all pages; several usual ones fit beside each other.
    """

    grids: tuple[int, ...]
    boundary: int
    usual: int
    longest: int


def measure(capabilities: Capabilities, configuration: Configuration) -> Sizes:
    """Return the sizes that matter to this cache; where it rounded the configuration, its own count."""
    page = capabilities.page_size
    chunk = max(configuration.chunk_size, capabilities.chunk_size)
    boundary = boundary_grid(page, chunk)
    windows = [group.window for group in capabilities.groups if group.kind is GroupKind.WINDOW]
    grids = {page, chunk, boundary, capabilities.hit_alignment, capabilities.freeze_grid.chunk_size, *windows}
    tokens = _tokens(capabilities, configuration)
    fitting = {grid for grid in grids if 1 < grid <= tokens}
    usual = min(max(2 * boundary + page, tokens // 2), LONGEST_IN_BOUNDARIES * boundary, tokens)
    return Sizes(tuple(sorted(fitting)) or (1,), min(boundary, max(2, tokens)), max(2, usual), max(2, tokens))


def _tokens(capabilities: Capabilities, configuration: Configuration) -> int:
    """Return how many tokens fit at once: groups that share a pool share its cells."""
    held: dict[str, int] = {}
    for group in capabilities.groups:
        if group.kind in (GroupKind.FULL, GroupKind.COMPRESSED):
            held[group.pool] = held.get(group.pool, 0) + 1
    pages = {group.pool: group.page_size for group in capabilities.groups if group.kind.paged}
    pools = {**configuration.pools, **capabilities.pools}
    return min((pools[pool] // count * pages[pool] for pool, count in held.items()), default=64)


def boundary_length(chooser: Chooser, sizes: Sizes, low: int, high: int) -> int:
    """Choose a length in [low, high], most often a multiple of a grid or a neighbour of one."""
    if high <= low:
        return high
    grid = chooser.choose(sizes.grids)
    first, last = -(-low // grid), high // grid
    if first > last or chooser.chance(1, 8):
        return chooser.integer(low, high)
    length = grid * chooser.integer(first, last) + chooser.choose((0, 1, 0, -1, 1))
    return min(max(length, low), high)


def run_of(chooser: Chooser, length: int) -> tuple[int, ...]:
    """Choose `length` tokens: a run of one letter, or a mixture of two."""
    letter = chooser.choose(LETTERS)
    if chooser.chance(2, 3):
        return (letter,) * length
    return tuple(chooser.choose((letter, LETTERS[0], letter)) for _ in range(length))


@dataclass(slots=True)
class Sketch:
    """What the generator believes of one request: it sees no answer, so `asked` is how far it asked to go.

    `said` counts the tokens that are known after a speculating step: one more than were computed.
    """

    request: str
    prompt: tuple[int, ...]
    samples: tuple[int, ...] = ()
    namespace: Namespace = ()
    content: dict[int, str] = field(default_factory=dict)
    asked: int = 0
    in_flight: bool = False
    said: int = 0

    @property
    def stream(self) -> tuple[int, ...]:
        """The prompt and all that the model will say."""
        return self.prompt + self.samples


class Library:
    """The system prefixes of one schedule, and prompts built from them and from what was asked before."""

    def __init__(self, chooser: Chooser, sizes: Sizes) -> None:
        self._chooser = chooser
        self._sizes = sizes
        self._fresh = 0
        half = max(1, sizes.usual // 2)
        self.systems = [run_of(chooser, boundary_length(chooser, sizes, 1, half)) for _ in range(chooser.integer(1, 2))]

    def tail(self, before: tuple[int, ...]) -> tuple[int, ...]:
        """Choose what follows `before`, short enough to fit most of the time."""
        longest = self._sizes.longest if self._chooser.chance(1, 8) else self._sizes.usual
        end = boundary_length(self._chooser, self._sizes, len(before) + 1, longest)
        return run_of(self._chooser, max(1, end - len(before)))

    def system(self) -> tuple[int, ...]:
        """A system prefix and a tail."""
        prefix = self._chooser.choose(self.systems)
        return prefix + self.tail(prefix)

    def fresh(self, length: int) -> tuple[int, ...]:
        """Tokens that no other prompt of the schedule begins with."""
        self._fresh += 1
        token = FIRST_FRESH + (self._fresh - 1 if self._fresh <= 26 else self._fresh + 200)
        return (token,) * max(1, length)

    def branch(self, past: Sketch) -> tuple[int, ...]:
        """Part of an earlier request, then something else."""
        cut = boundary_length(self._chooser, self._sizes, 1, max(1, len(past.stream) - 1))
        return past.stream[:cut] + self.tail(past.stream[:cut])

    def edit(self, past: Sketch) -> tuple[int, ...]:
        """An earlier prompt with something changed inside and the same words behind it.

        Besides another letter: two neighbours changed so that a polynomial of the tokens stays the same.
        """
        tokens = list(past.prompt)
        position = boundary_length(self._chooser, self._sizes, 0, len(tokens) - 1)
        if position + 1 < len(tokens) and tokens[position] > ROLL and self._chooser.chance(1, 3):
            tokens[position] -= 1
            tokens[position + 1] += ROLL
        else:
            tokens[position] = self._chooser.choose(LETTERS)
        return tuple(tokens)

    def continuation(self, past: Sketch) -> tuple[int, ...]:
        """An earlier request with all that was said, and the next turn."""
        said = past.stream[: max(past.asked, past.said, len(past.prompt))]
        return said + self.tail(said)

    def pictures(self, prompt: tuple[int, ...]) -> tuple[tuple[int, ...], dict[int, str]]:
        """Turn one position of a prompt into a placeholder, with an identity of its own."""
        position = boundary_length(self._chooser, self._sizes, 0, min(len(prompt) - 1, 2 * self._sizes.boundary))
        placed = (*prompt[:position], PICTURE, *prompt[position + 1 :])
        return placed, {position: self._chooser.choose(("cat", "dog"))}
