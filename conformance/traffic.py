"""Recorded traffic as schedules: real conversations, scaled down until a small cache is under pressure.

What is kept is the shape: which requests share which prefix, where they diverge, where prompts end, how turns of
several conversations alternate. What is lost is text and length. The blocks of a prompt become letters, a stretch
that no two requests of the schedule tell apart is cut to its first blocks, and what the model said is taken to be
what the next prompt goes on with, where that one only appends.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, count, islice, pairwise
from pathlib import Path
from string import ascii_letters

from milepost.conformance.traffic_sources import Conversation, Turn, read_conversations
from milepost.spec.capabilities import Capabilities
from milepost.spec.geometry import boundary_grid, floor_to
from milepost.spec.operations import Close, Extend, Freeze, Land, Launch, Open, Operation, Publish
from milepost.spec.schedule import Header, Schedule
from milepost.spec.words import GroupKind

ANCHOR = ord("!")
"""The token that opens a tool call."""

Block = int | str
Symbol = tuple[Block, int]
"""One token before it has a number: a block and the position in it."""

_OPERATIONS_PER_TURN = 10
_DECODE_EXTENDS = 2


@dataclass(frozen=True, slots=True)
class Scale:
    """What traffic is scaled down to: tokens for each block, blocks for each prompt, turns for each conversation."""

    tokens: int
    blocks: int
    turns: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Window:
    """The next few turns of one conversation, whose blocks have `block` tokens."""

    conversation: str
    block: int
    turns: list[Turn]


@dataclass(frozen=True, slots=True)
class Sketch:
    """One turn, scaled down, before its tokens have numbers."""

    request: str
    prompt: list[Symbol]
    samples: list[Symbol]


def traffic_schedules(
    path: str | Path,
    capabilities: Capabilities,
    *,
    tokens_per_block: int | None = None,
    operations: int = 60,
    lanes: int = 2,
) -> Iterator[Schedule]:
    """Yield schedules of about `operations` operations, made of `lanes` conversations at a time.

    `tokens_per_block` defaults to what fills a page and reaches a boundary in four blocks. Streams: a long file costs
    no more memory than its longest line.
    """
    scale = make_scale(capabilities, tokens_per_block, operations, lanes)
    stem = Path(path).name.split(".")[0]
    for number, windows in enumerate(_windows(read_conversations(path), scale), start=1):
        yield make_schedule(f"traffic/{stem}/{number}", windows, capabilities, scale)


def make_scale(capabilities: Capabilities, tokens_per_block: int | None, operations: int, lanes: int) -> Scale:
    """Choose sizes: one prompt fills about two thirds of what one request may hold, so that two do not fit."""
    page, boundary = capabilities.page_size, boundary_grid(capabilities.page_size, capabilities.chunk_size)
    tokens = tokens_per_block or max(page, -(-boundary // (4 * page)) * page)
    lanes = max(1, min(lanes, capabilities.max_live))
    blocks = max(2, _room(capabilities, boundary) * 2 // (3 * tokens))
    return Scale(tokens, blocks, max(1, operations // (lanes * _OPERATIONS_PER_TURN)), lanes)


def _room(capabilities: Capabilities, boundary: int) -> int:
    """Return the tokens that one request may hold; groups that slide hold less and don't count where others are."""
    shares = Counter(group.pool for group in capabilities.groups)
    paged = [group for group in capabilities.groups if group.kind.paged]
    counted = [group for group in paged if group.kind is not GroupKind.WINDOW] or paged
    rooms = [capabilities.pools[group.pool] * group.page_size // shares[group.pool] for group in counted]
    return min(rooms, default=8 * boundary)


def _windows(conversations: Iterator[Conversation], scale: Scale) -> Iterator[list[Window]]:
    """Yield the next few turns of each running conversation; where one ends, another takes its lane."""
    running: list[Conversation] = []
    while True:
        windows: list[Window] = []
        while len(windows) < scale.lanes:
            lane = len(windows)
            if lane == len(running):
                another = next(conversations, None)
                if another is None:
                    break
                running.append(another)
            turns = list(islice(running[lane].turns, scale.turns))
            if turns:
                windows.append(Window(running[lane].name, running[lane].block, turns))
            else:
                del running[lane]
        if not windows:
            return
        yield windows


def make_schedule(name: str, windows: Sequence[Window], capabilities: Capabilities, scale: Scale) -> Schedule:
    """Turn a few turns of a few conversations into one schedule."""
    prompts = iter(shorten([turn.blocks for window in windows for turn in window.turns], scale.blocks))
    anchored: set[Symbol] = set()
    lanes = [
        _sketch(letter, window, [next(prompts) for _ in window.turns], scale.tokens, anchored)
        for letter, window in zip(ascii_letters, windows, strict=False)
    ]
    numbers = _number([sketch for lane in lanes for sketch in lane], anchored)
    operations = [
        [one for index, sketch in enumerate(lane) for one in _turn(index, sketch, numbers, capabilities)]
        for lane in lanes
    ]
    header = Header(
        name,
        capabilities.page_size,
        capabilities.chunk_size,
        dict(capabilities.pools),
        about="requests of " + " and ".join(window.conversation for window in windows),
        anchor=ANCHOR if anchored else None,
        max_live=capabilities.max_live,
    )
    return Schedule(header, tuple(_interleave(operations)))


# -- shorter prompts


def shorten(prompts: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Cut prompts to at most `most` blocks each, so that they diverge from each other where they did.

    The stretches between the points where some two prompts part, or one ends, keep their first blocks. Where there
    are more stretches than blocks, the prefix that all share and the newest ones stay.
    """
    cuts = [{len(prompt)} for prompt in prompts]
    for (one, left), (other, right) in combinations(enumerate(prompts), 2):
        parting = common_length(left, right)
        cuts[one].add(parting)
        cuts[other].add(parting)
    stretches = [
        [prompt[start:stop] for start, stop in pairwise([0, *sorted(points - {0})])]
        for prompt, points in zip(prompts, cuts, strict=True)
    ]
    limit = most
    while limit > 1 and any(sum(min(limit, len(one)) for one in each) > most for each in stretches):
        limit -= 1
    return _drop([[block for one in each for block in one[:limit]] for each in stretches], most)


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many members two lists share from the start; compares slices, for the lists are long."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _drop(prompts: list[list[int]], most: int) -> list[list[int]]:
    """Leave out the same blocks everywhere, so that what was a prefix of another prompt stays one."""
    dropped: set[int] = set()
    for prompt in prompts:
        kept = [block for block in prompt if block not in dropped]
        dropped.update(kept[1 : 1 + max(0, len(kept) - most)])
    return [[block for block in prompt if block not in dropped] for prompt in prompts]


# -- tokens


def _sketch(
    letter: str, window: Window, prompts: list[list[int]], tokens: int, anchored: set[Symbol]
) -> list[Sketch]:
    """Lay out the turns of one conversation; the symbols where a tool call opens are added to `anchored`."""
    whole: list[list[Symbol]] = [
        [(block, position) for block in prompt for position in range(tokens)] for prompt in prompts
    ]
    sketches = []
    for index, (turn, symbols) in enumerate(zip(window.turns, whole, strict=True)):
        request = f"{letter}{index + 1}"
        tail = max(turn.tail * tokens // window.block, 0 if symbols else 1)
        said = min(max(turn.said * tokens // window.block, 1), tokens) if turn.said else 0
        following = [*_continuation(window.turns, whole, index)[: tail + said]]
        following += [(request, position) for position in range(len(following), tail + said)]
        samples = following[tail:]
        if turn.opener is not None and samples and tokens > 1:  # a block of one token would lose its identity
            anchored.add(samples[min(turn.opener * tokens // window.block, said - 1)])
        sketches.append(Sketch(request, symbols + following[:tail], samples))
    return sketches


def _continuation(turns: list[Turn], whole: list[list[Symbol]], index: int) -> list[Symbol]:
    """Return what the next prompt adds to this one; nothing where it changes it or is not known."""
    if index + 1 == len(turns):
        return []
    blocks, following = turns[index].blocks, turns[index + 1].blocks
    return whole[index + 1][len(whole[index]) :] if following[: len(blocks)] == blocks else []


def _number(sketches: list[Sketch], anchored: set[Symbol]) -> dict[Symbol, int]:
    """Give every block a letter, in order of appearance and beyond the alphabet a larger number."""
    numbers: dict[Block, int] = {}
    tokens: dict[Symbol, int] = {}
    for sketch in sketches:
        for symbol in (*sketch.prompt, *sketch.samples):
            known = len(numbers)
            letter = ord(ascii_letters[known]) if known < len(ascii_letters) else 0x100 + known
            number = numbers.setdefault(symbol[0], letter)
            tokens[symbol] = ANCHOR if symbol in anchored else number
    return tokens


# -- operations


def _turn(
    index: int, sketch: Sketch, numbers: dict[Symbol, int], capabilities: Capabilities
) -> Iterator[Operation]:
    """Yield the life of one request: prefill in chunks, publish or freeze at times, decode, close."""
    request = sketch.request
    prompt = tuple(numbers[symbol] for symbol in sketch.prompt)
    samples = tuple(numbers[symbol] for symbol in sketch.samples)
    yield Open(request, prompt, samples)
    boundary = boundary_grid(capabilities.page_size, capabilities.chunk_size)
    last = floor_to(boundary, len(prompt))
    stride = boundary * max(1, -(-last // (2 * boundary)))
    for stop in sorted({*range(stride, last, stride), last, len(prompt)} - {0}):
        yield Extend(request, stop)
        if stop == last and capabilities.explicit_freeze and (index % 2 or not capabilities.mid_prefill_freeze):
            yield Freeze(request)
    if capabilities.explicit_publish and not index % 2:
        yield Publish(request)
    stride = max(1, -(-len(samples) // _DECODE_EXTENDS))
    for said in range(stride, len(samples) + stride, stride):
        yield Extend(request, len(prompt) + min(said, len(samples)))
    for _ in range(capabilities.overlap + 1):
        yield Land()  # a server ends a request when it knows the last token
    yield Close(request, keep=True)


def _interleave(lanes: list[list[Operation]]) -> Iterator[Operation]:
    """Take turns; a lane starts two rounds after the one before it, and extends of one round are one step."""
    waiting = [deque(lane) for lane in lanes]
    for number in count():
        due = [lane.popleft() for index, lane in enumerate(waiting) if lane and number >= 2 * index]
        if not due and not any(waiting):
            return
        extends = [one for one in due if isinstance(one, Extend)]
        yield from (one for one in due if not isinstance(one, Extend))
        yield from extends
        if len(extends) > 1:
            yield Launch()
