"""For each fault code the shortest story that shows it, told by a cache that answers from a script."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from milepost.conformance.driver import Driver, Observer
from milepost.conformance.outcome import Line, Outcome
from milepost.spec.answers import (
    Answer,
    Drained,
    Evicted,
    Frozen,
    Grant,
    Hit,
    Landing,
    Launched,
    Pages,
    Phase,
    Refused,
    ResetDone,
    Slots,
    Table,
)
from milepost.spec.capabilities import Capabilities, FreezeGrid, Group
from milepost.spec.faults import Fault
from milepost.spec.operations import Close, Drain, Evict, Extend, Freeze, Land, Launch, Open, Operation, Reset
from milepost.spec.schedule import Header, Schedule, parse_tokens
from milepost.spec.state import State
from milepost.spec.words import NULL, GroupKind, Namespace

TEXT, OTHER = parse_tokens("ababaabbaaabbbbaabbb"), parse_tokens("ababaabbaaabbbbaaaaa")
STRANGE = parse_tokens("bbbbaabbaaab")

HYBRID = Capabilities(
    engine="acme",
    version="0.9.2",
    groups=(Group("kv", GroupKind.FULL, "kv", page_size=4), Group("state", GroupKind.RECURRENT, "state")),
    pools={"kv": 12, "state": 8},
    chunk_size=8,
    explicit_freeze=True,
    mid_prefill_freeze=True,
    evicts=True,
    resets="always",
    namespaces=("salt",),
)
PAGED = replace(HYBRID, groups=HYBRID.groups[:1], pools={"kv": 12})
WINDOWED = replace(HYBRID, groups=(HYBRID.groups[0], Group("near", GroupKind.WINDOW, "near", page_size=4, window=6)),
                   pools={"kv": 12, "near": 12})


Script = dict[str, list[Any]]
"""Answers by verb, in the order in which they are given."""


class Scripted:
    """A cache that gives the scripted answers, verb by verb, and empty tables where the script has none."""

    def __init__(self, capabilities: Capabilities, script: Mapping[str, list[Any]]) -> None:
        self.capabilities = capabilities
        self.script = {verb: deque(answers) for verb, answers in script.items()}
        self.steps = 0

    def next(self, verb: str, default: Answer) -> Any:
        waiting = self.script.get(verb)
        answer = waiting.popleft() if waiting else default
        if isinstance(answer, Exception):
            raise answer
        return answer

    def open(self, request: str, tokens: tuple[int, ...], namespace: Namespace, content: Mapping[int, str]) -> Any:
        return self.next("open", Hit(0))

    def extend(self, request: str, to: int, draft: int = 0) -> Any:
        return self.next("extend", Grant(to))

    def launch(self) -> Any:
        self.steps += 1
        return self.next("launch", Launched(self.steps))

    def land(self, step: int, accepted: Mapping[str, int], sampled: Mapping[str, tuple[int, ...]]) -> Any:
        return self.next("land", Landing())

    def freeze(self, request: str) -> Any:
        return self.next("freeze", Frozen(0, ()))

    def publish(self, request: str) -> Any:
        return self.next("publish", Landing())

    def preempt(self, request: str) -> Any:
        return self.next("preempt", Landing({request: {}}))

    def close(self, request: str, keep: bool) -> Any:
        return self.next("close", Landing({request: {}}))

    def reset(self) -> Any:
        return self.next("reset", ResetDone(True))

    def evict(self, group: str, cells: int) -> Any:
        return self.next("evict", Evicted())


@dataclass(frozen=True, slots=True)
class Story:
    """A schedule, the answers to it, and what the cache declares; `white_box` stands for a check of an inventory."""

    operations: tuple[Operation, ...]
    script: Script
    capabilities: Capabilities = HYBRID
    observers: tuple[Observer, ...] = ()
    fill: Callable[[Driver], None] | None = None
    hangs: bool = False

    def tell(self) -> Outcome:
        """Run the story."""
        adapter = Scripted(self.capabilities, self.script)
        outcome = Driver(adapter, self.observers).run(Schedule(Header(id="story"), self.operations), self.fill)
        if self.hangs and outcome.fault:  # no answer can be told from a late one only by a watchdog outside
            outcome.fault = Fault("hang", outcome.fault.request, detail="no answer in 10 seconds")
        return outcome


def table(*columns: int, live: int = NULL, source: int = NULL, frozen: tuple[tuple[int, int], ...] = ()) -> Table:
    return {"kv": Pages(columns), "state": Slots(live, frozen, source)}


def grant(length: int, *columns: int, live: int = 3, **more: Any) -> Grant:
    freezes, start = more.pop("freezes", ()), more.pop("start", None)
    return Grant(length, table(*columns, live=live, **more), freezes, {"state": start})


def pages(*columns: int) -> Table:
    return {"kv": Pages(columns)}


def copied(source: int, target: int) -> Phase:
    return Phase(((("state"), source, target),))


def first_request(length: int = 16, freeze_at: int = 16) -> tuple[tuple[Operation, ...], Script]:
    """r1 runs to `length`, leaves a snapshot at `freeze_at` in state 2, and closes."""
    columns = tuple(range(11, 11 - length // 4, -1))
    freezes = (("state", 2, freeze_at),)
    grants = [grant(length, *columns, freezes=freezes, frozen=((freeze_at, 2),))]
    return (Open("r1", TEXT), Extend("r1", length), Close("r1", keep=True)), {"extend": grants}


def over_advanced() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(8, table(11, 10, source=2))]
    return Story((*operations, Open("r2", OTHER)), script)


def over_advanced_of_another_text() -> Story:
    story = over_advanced()
    text = (*TEXT[:8], *STRANGE)
    return replace(story, operations=(*story.operations[:-1], Open("r2", text)))


def torn_hit_without_state() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(8, table(11, 10))]
    return Story((*operations, Open("r2", OTHER)), script)


def torn_hit_in_the_forward() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    script["extend"].append(grant(19, 11, 10, 9, 8, 7, live=5, source=2))
    return Story((*operations, Open("r2", OTHER), Extend("r2", 19)), script)


def torn_hit_of_a_zeroed_state() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    script["extend"].append(grant(19, 11, 10, 9, 8, 7, live=5, source=2, start=5))
    script["launch"] = [Launched(1), Launched(2, (Phase(zeros=(("state", 5),)),))]
    return Story((*operations, Open("r2", OTHER), Extend("r2", 19)), script)


def torn_hit_through_a_copy() -> Story:
    operations, script = first_request(16, 8)
    freezes = (("state", 2, 8), ("state", 4, 16))
    script["extend"] = [grant(16, 11, 10, 9, 8, freezes=freezes, frozen=((8, 2), (16, 4)))]
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=4))]
    script["extend"].append(grant(19, 11, 10, 9, 8, 7, live=5, source=4, start=5))
    script["launch"] = [Launched(1), Launched(2, (copied(2, 5),))]
    return Story((*operations, Open("r2", OTHER), Extend("r2", 19)), script)


def kv_gap() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, NULL, NULL, 8, source=2))]
    return Story((*operations, Open("r2", OTHER)), script)


def window_gap() -> Story:
    both: Table = {"kv": Pages((11, 10, 9, 8)), "near": Pages((5, 4, 3, 2))}
    offered: Table = {"kv": Pages((11, 10, 9)), "near": Pages((NULL, NULL, 3))}
    script: Script = {"extend": [Grant(16, both)], "open": [Hit(0), Hit(12, offered)]}
    return Story((Open("r1", TEXT), Extend("r1", 16), Close("r1", True), Open("r2", OTHER)), script, WINDOWED)


def stale_kv() -> Story:
    script: Script = {"extend": [Grant(16, pages(11, 10, 9, 8))], "open": [Hit(0), Hit(8, pages(11, 10))]}
    operations = (Open("r1", TEXT), Extend("r1", 16), Close("r1", True), Open("r2", (*TEXT[:4], *STRANGE)))
    return Story(operations, script, PAGED)


def stale_kv_in_the_forward() -> Story:
    """r1's page is freed as a duplicate while its table goes on naming it, and r2 writes there."""
    script: Script = {
        "extend": [Grant(8, pages(11, 10)), Grant(4, pages(10)), Grant(12, pages(11, 10, 9))],
        "open": [Hit(0), Hit(0)],
        "land": [Landing({"r1": pages(11)}), Landing(), Landing()],
    }
    operations = (Open("r1", TEXT), Extend("r1", 8), Open("r2", STRANGE), Extend("r2", 4), Close("r2"),
                  Extend("r1", 12))
    return Story(operations, script, PAGED)


def stale_state() -> Story:
    operations, script = first_request(8, 8)
    script["extend"].append(grant(8, 9, 8, live=5, freezes=(("state", 4, 8),), frozen=((8, 4),)))
    script["open"] = [Hit(0), Hit(0), Hit(8, table(11, 10, source=4))]
    more = (Open("r2", STRANGE), Extend("r2", 8), Close("r2", True), Open("r3", OTHER))
    return Story((*operations, *more), script)


def reset_survivor() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    return Story((*operations, Reset(), Open("r2", OTHER)), script)


def cross_namespace() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    first = replace(operations[0], namespace=(("salt", "blue"),))  # type: ignore[arg-type]
    return Story((first, *operations[1:], Open("r2", OTHER, namespace=(("salt", "green"),))), script)


def uninitialized_read() -> Story:
    """A state is granted again, nothing zeroes it, and the kernel is told to start from it."""
    operations, script = first_request(8, 8)
    script["extend"].append(grant(8, 9, 8, live=3, start=3))
    return Story((*operations, Open("r2", STRANGE), Extend("r2", 8)), script)


def uninitialized_read_at_open() -> Story:
    operations, script = first_request(8, 8)
    script["open"] = [Hit(0), Hit(8, table(11, 7, source=2))]
    return Story((*operations, Open("r2", OTHER)), script)


def uninitialized_copy() -> Story:
    operations, script = first_request(8, 8)
    script["extend"].append(grant(8, 9, 8, live=5, start=5))
    script["launch"] = [Launched(1), Launched(2, (copied(6, 5),))]
    return Story((*operations, Open("r2", STRANGE), Extend("r2", 8)), script)


LITERAL = replace(HYBRID, ordered_steps=False, overlap=1)


def read_before_landing() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    script["close"] = [Landing({"r1": table(11, 10, 9, 8, live=3, frozen=((16, 2),))})]
    return Story((*operations, Open("r2", OTHER)), script, LITERAL)


def read_before_landing_of_a_promise() -> Story:
    """r2 hits what r1 has planned, and r1's step is dropped."""
    script: Script = {
        "open": [Hit(0), Hit(8, pages(11, 10))],
        "extend": [Grant(8, pages(11, 10)), Grant(12, pages(11, 10, 9))],
    }
    operations = (Open("r1", TEXT), Extend("r1", 8), Open("r2", OTHER), Close("r1"), Extend("r2", 12), Launch())
    return Story(operations, script, replace(PAGED, drops_planned=("close",)))


def late_write() -> Story:
    script: Script = {
        "extend": [Grant(8, pages(11, 10)), Grant(4, pages(10))],
        "close": [Landing({"r1": pages()})],
    }
    operations = (Open("r1", TEXT), Extend("r1", 8), Close("r1"), Open("r2", STRANGE), Extend("r2", 4))
    return Story(operations, script, replace(PAGED, ordered_steps=False, overlap=1))


def late_write_into_what_is_read() -> Story:
    """A zeroing outside the device queue is overtaken by the step that still writes a snapshot there."""
    now = Phase(zeros=(("state", 4),), at="now")
    script: Script = {
        "extend": [grant(8, 11, 10, freezes=(("state", 4, 8),)), grant(8, 9, 8, live=4, start=4)],
        "launch": [Launched(1), Launched(2, (now,))],
    }
    operations = (Open("r1", TEXT), Extend("r1", 8), Close("r1"), Open("r2", STRANGE), Extend("r2", 8))
    return Story(operations, script, replace(HYBRID, overlap=1))


def double_grant() -> Story:
    script: Script = {"extend": [Grant(8, pages(11, 10)), Grant(8, pages(9, 10))]}
    return Story((Open("r1", TEXT), Extend("r1", 8), Open("r2", STRANGE), Extend("r2", 8)), script, PAGED)


def double_grant_in_one_table() -> Story:
    return Story((Open("r1", TEXT), Extend("r1", 8)), {"extend": [Grant(8, pages(11, 11))]}, PAGED)


def double_grant_of_a_state() -> Story:
    script: Script = {"extend": [grant(8, 11, 10), grant(8, 9, 8, live=3)]}
    return Story((Open("r1", TEXT), Extend("r1", 8), Open("r2", STRANGE), Extend("r2", 8)), script)


def evicted_while_leased() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2)), Hit(0)]
    script["extend"].append(grant(4, 10, live=5))
    return Story((*operations, Open("r2", OTHER), Open("r3", STRANGE), Extend("r3", 4)), script)


def evicted_by_request() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    script["evict"] = [Evicted((("kv", 8), ("state", 2)))]
    return Story((*operations, Open("r2", OTHER), Evict("kv", 2)), script)


def write_to_published() -> Story:
    """r2 resumes inside a page that r1 still holds, and writes over r1's entries."""
    script: Script = {
        "open": [Hit(0), Hit(6, pages(11, 10))],
        "extend": [Grant(8, pages(11, 10)), Grant(10, pages(11, 10, 9))],
    }
    return Story((Open("r1", TEXT), Extend("r1", 8), Open("r2", OTHER), Extend("r2", 10)), script, PAGED)


def write_to_published_by_a_copy() -> Story:
    """Two requests are to be restored from a snapshot, and a third freezes over it."""
    operations, script = first_request()
    hit = Hit(16, table(11, 10, 9, 8, source=2))
    script["open"] = [Hit(0), hit, hit, Hit(0)]
    script["extend"].append(grant(8, 7, 6, live=5))
    script["freeze"] = [Frozen(8, (("state", 2),), table(7, 6, live=5), phases=(copied(5, 2),))]
    readers = (Open("r2", OTHER), Open("r3", OTHER))
    return Story((*operations, *readers, Open("r4", STRANGE), Extend("r4", 8), Freeze("r4")), script)


def write_under_a_step() -> Story:
    """A zeroing outside the device queue hits the live state of a request whose step is in flight."""
    now = Phase(zeros=(("state", 3),), at="now")
    script: Script = {
        "extend": [grant(8, 11, 10), grant(12, 11, 10, 9, start=3), grant(8, 8, 7, live=5)],
        "launch": [Launched(1), Launched(2), Launched(3, (now,))],
    }
    operations = (Open("r1", TEXT), Extend("r1", 8), Extend("r1", 12), Open("r2", STRANGE), Extend("r2", 8))
    return Story(operations, script, replace(HYBRID, overlap=1))


def stale_state_at_a_cold_start() -> Story:
    """r2 starts cold, and its kernel is told to begin from r1's snapshot."""
    operations, script = first_request(8, 8)
    script["extend"].append(grant(8, 9, 8, live=5, start=2))
    return Story((*operations, Open("r2", STRANGE), Extend("r2", 8)), script)


def stale_kv_of_an_image() -> Story:
    """The placeholders are equal, and the pictures are not."""
    capabilities = replace(PAGED, contents=True)
    script: Script = {"extend": [Grant(8, pages(11, 10))], "open": [Hit(0), Hit(8, pages(11, 10))]}
    first, second = Open("r1", TEXT, content={4: "cat"}), Open("r2", OTHER, content={4: "dog"})
    return Story((first, Extend("r1", 8), Close("r1", True), second), script, capabilities)


def white_box(fault: Fault) -> Observer:
    """Return an observer that finds a fault in the inventory after the second open."""

    def observe(before: State, line: Line, after: State) -> Fault | None:
        return fault if isinstance(line.operation, Open) and line.operation.request == "r2" else None

    return observe


def reads_private() -> Story:
    script: Script = {"open": [Hit(0), Hit(8, pages(11, 10))], "extend": [Grant(8, pages(11, 10))]}
    fault = Fault("reads-private", "r2", "kv", ("kv", 10), 8, other="r1")
    return Story((Open("r1", TEXT), Extend("r1", 8), Open("r2", OTHER)), script, PAGED, (white_box(fault),))


def inventory_story(fault: Fault) -> Story:
    """r1 leaves pages and a snapshot, r2 hits them, and the inventory then shows a fault."""
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    return Story((*operations, Open("r2", OTHER)), script, observers=(white_box(fault),))


def lease_underflow() -> Story:
    return inventory_story(Fault("lease-underflow", "", cell=("kv", 10), numbers={"leases": -1}))


def lease_underflow_of_a_reader() -> Story:
    numbers = {"leases": 0, "readers": 1}
    return inventory_story(Fault("lease-underflow", "r2", cell=("state", 2), numbers=numbers,
                                 detail="fewer leases than open requests that read it"))


def torn_hit_in_the_inventory() -> Story:
    return inventory_story(Fault("torn-hit", "", cell=("state", 2), position=20,
                                 numbers={"endpoint": 20, "content": 16}))


def stale_state_in_the_inventory() -> Story:
    return inventory_story(Fault("stale-state", "", cell=("state", 2), position=16,
                                 numbers={"endpoint": 16, "content": -1}))


def double_grant_in_the_inventory() -> Story:
    detail = "it went from shared to free, and no row leads there while it is held"
    return inventory_story(Fault("double-grant", "r2", cell=("kv", 10), detail=detail))


def evicted_in_the_inventory() -> Story:
    return inventory_story(Fault("evicted-while-leased", "r2", cell=("kv", 10), other="r2",
                                 detail="the inventory says evicted"))


def illegal_boundary_in_the_inventory() -> Story:
    return inventory_story(Fault("illegal-boundary", "r1", cell=("state", 2), position=16,
                                 numbers={"endpoint": 12, "table": 16}))


def leak_in_the_inventory() -> Story:
    return inventory_story(Fault("leak", "r1", cell=("state", 3), detail="it is live, and its owner is gone"))


def leak_of_unlisted_cells() -> Story:
    return inventory_story(Fault("leak", "", cell=("state", NULL), numbers={"inventory": 7, "pool": 8}))


def leak() -> Story:
    """State 3 is handed out once and never again."""

    def fill(driver: Driver) -> None:
        driver.ask(Reset())
        for number in range(2):
            driver.ask(Open(f"fill0.{number}", STRANGE))
            driver.ask(Extend(f"fill0.{number}", 4))
            if driver.state.planned():
                driver.ask(Launch())
                driver.land_down_to(0)
        driver.ask(Close("fill0.0"))
        driver.judge_drain(Drained(40, 48))

    script: Script = {"extend": [grant(8, 11, 10), grant(4, 11, live=5),
                         Refused("no-slot")]}
    return Story((Open("r1", TEXT), Extend("r1", 8), Close("r1"), Drain()), script, fill=fill)


def torn_refusal() -> Story:
    """r2 is refused for want of a slot, after r1's live state was taken for it."""
    script: Script = {"extend": [grant(8, 11, 10),
                         Refused("no-slot", tables={"r1": table(11, 10)})]}
    return Story((Open("r1", TEXT), Extend("r1", 8), Open("r2", STRANGE), Extend("r2", 4)), script)


def torn_refusal_of_a_page() -> Story:
    script: Script = {"extend": [Grant(8, pages(11, 10)), Refused("no-page", tables={"r1": pages(11)})]}
    return Story((Open("r1", TEXT), Extend("r1", 8), Open("r2", STRANGE), Extend("r2", 4)), script, PAGED)


def torn_refusal_of_an_open() -> Story:
    script: Script = {"open": [Refused("no-slot", tables={"r1": table(live=3)})]}
    return Story((Open("r1", TEXT),), script)


def illegal_boundary() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(10, table(11, 10, 9, source=2))]
    return Story((*operations, Open("r2", OTHER)), script, replace(HYBRID, hit_alignment=8))


def illegal_boundary_at_the_end() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    return Story((*operations, Open("r2", TEXT[:16])), script)


def illegal_freeze() -> Story:
    freezes = (("state", 2, 10),)
    script: Script = {"extend": [grant(16, 11, 10, 9, 8, freezes=freezes, frozen=((10, 2),))]}
    return Story((Open("r1", TEXT), Extend("r1", 16)), script, replace(HYBRID, freeze_grid=FreezeGrid(8)))


def illegal_boundary_of_a_compressed_group() -> Story:
    groups = (Group("kv", GroupKind.COMPRESSED, "kv", page_size=4, ratio=4),)
    script: Script = {"open": [Hit(0), Hit(6, pages(11, 10))], "extend": [Grant(8, pages(11, 10))]}
    operations = (Open("r1", TEXT), Extend("r1", 8), Close("r1", True), Open("r2", OTHER))
    return Story(operations, script, replace(PAGED, groups=groups))


def leak_of_a_refused_reset() -> Story:
    script: Script = {"extend": [Grant(8, pages(11, 10))], "reset": [ResetDone(False)]}
    operations = (Open("r1", TEXT), Extend("r1", 8), Land(), Close("r1"), Reset())
    return Story(operations, script, replace(PAGED, resets="idle"))


def torn_refusal_that_takes_more() -> Story:
    script: Script = {"extend": [Grant(8, pages(11, 10)), Refused("no-page", tables={"r1": pages(11, 10, 9)})]}
    return Story((Open("r1", TEXT), Extend("r1", 8), Open("r2", STRANGE), Extend("r2", 4)), script, PAGED)


def torn_refusal_of_a_source() -> Story:
    operations, script = first_request()
    script["open"] = [Hit(0), Hit(16, table(11, 10, 9, 8, source=2))]
    script["extend"].append(Refused("no-slot", tables={"r2": table(11, 10, 9, 8)}))
    return Story((*operations, Open("r2", OTHER), Extend("r2", 19)), script)


def torn_refusal_of_a_reset() -> Story:
    script: Script = {"extend": [grant(8, 11, 10)], "reset": [ResetDone(False, {"r1": table(11, 10)})]}
    return Story((Open("r1", TEXT), Extend("r1", 8), Reset()), script, replace(HYBRID, resets="idle"))


def crash() -> Story:
    return Story((Open("r1", TEXT), Extend("r1", 8), Open("r2", OTHER)),
                 {"open": [Hit(0), IndexError("pop from an empty list")], "extend": [Grant(8, pages(11, 10))]}, PAGED)


def hang() -> Story:
    story = crash()
    return replace(story, script={**story.script, "open": [Hit(0), TimeoutError()]}, hangs=True)


STORIES: dict[str, Callable[[], Story]] = {
    story.__name__: story
    for story in (
        over_advanced, over_advanced_of_another_text, torn_hit_without_state, torn_hit_in_the_forward,
        torn_hit_of_a_zeroed_state, torn_hit_through_a_copy, kv_gap, window_gap, stale_kv,
        stale_kv_in_the_forward, stale_state, reset_survivor, cross_namespace, uninitialized_read,
        uninitialized_read_at_open, uninitialized_copy, read_before_landing, read_before_landing_of_a_promise,
        late_write, late_write_into_what_is_read, double_grant, double_grant_in_one_table,
        double_grant_of_a_state, evicted_while_leased, evicted_by_request, write_to_published,
        write_to_published_by_a_copy, write_under_a_step, stale_state_at_a_cold_start, stale_kv_of_an_image,
        reads_private, lease_underflow, lease_underflow_of_a_reader, torn_hit_in_the_inventory,
        stale_state_in_the_inventory, double_grant_in_the_inventory, evicted_in_the_inventory,
        illegal_boundary_in_the_inventory, leak_in_the_inventory, leak_of_unlisted_cells, leak, torn_refusal,
        torn_refusal_of_a_page, torn_refusal_of_an_open, illegal_boundary, illegal_boundary_at_the_end,
        illegal_freeze, illegal_boundary_of_a_compressed_group, leak_of_a_refused_reset,
        torn_refusal_that_takes_more, torn_refusal_of_a_source, torn_refusal_of_a_reset, crash, hang,
    )
}
