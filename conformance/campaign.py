"""A campaign: corpus, recorded traffic, generated schedules and promises, on one target, in a watched child process."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from milepost.conformance.errors import AdapterError, KitError, UsageError
from milepost.conformance.generation import SeededSource
from milepost.conformance.known_faults import KnownFault
from milepost.conformance.outcome import Broken, Line, Outcome
from milepost.conformance.promises import JUDGED, first_difference
from milepost.conformance.shrinker import fingerprint, shrink
from milepost.conformance.supervisor import Child, Lost
from milepost.conformance.targets import usual_profile
from milepost.conformance.unaligned import UnalignedState
from milepost.conformance.worker import Done
from milepost.spec.capabilities import Capabilities, Configuration
from milepost.spec.faults import Fault
from milepost.spec.schedule import Header, Schedule
from milepost.spec.state import initial

DETERMINISM_SCHEDULES = 25
MOST_LOST = 8
"""A process that dies or hangs costs seconds each time: after so many a run has said enough."""

CORPUS = 1 << 40
"""Numbers from here on are schedules that the parent holds; below are generated ones."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person asked for. `length` is the average number of operations of a generated schedule."""

    schedules: int = 300
    seed: int = 1
    tier: str = "deterministic"
    budget_seconds: float | None = None
    length: int = 40
    hang_seconds: float = 10.0
    shrink_seconds: float = 10.0
    profile: str = ""
    known: tuple[KnownFault, ...] = ()
    traffic: Callable[[Capabilities], Iterable[Schedule]] | None = None
    corpus: bool = True
    promises: bool = True
    shrunk_per_code: int = 3


@dataclass(slots=True)
class Finding:
    """One distinct fault or broken promise: its shrunk outcome, what it was shrunk from, and how often it was met."""

    outcome: Outcome
    fingerprint: str
    shrunk_from: int
    count: int = 1
    url: str = ""


@dataclass(slots=True)
class PromiseResult:
    """Whether a declared promise was kept: `kept`, `broken`, or `not judged`, with a sentence."""

    name: str
    result: str
    sentence: str = ""


@dataclass(slots=True)
class Campaign:
    """Everything that a run found out. `kills` has the count of operations at each failing schedule."""

    target: str
    capabilities: Capabilities
    options: Options
    schedules: int = 0
    operations: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    unaligned: UnalignedState = field(default_factory=UnalignedState)
    engine_seconds: float = 0.0
    judging_seconds: float = 0.0
    seconds: float = 0.0
    codes: Counter[str] = field(default_factory=Counter)
    kills: list[int] = field(default_factory=list)
    failing: dict[str, list[Outcome]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    promises: list[PromiseResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lost: int = 0

    def absorb(self, done: Done) -> None:
        """Add what one schedule left; raise TooManyLost where it was one hang too many."""
        self.schedules += 1
        self.operations += done.operations
        self.marks += done.marks
        self.skipped += done.skipped
        self.unaligned = self.unaligned + done.unaligned
        self.engine_seconds += done.engine_seconds
        self.judging_seconds += done.judging_seconds
        if done.outcome is not None:
            self.fail(done.outcome)
            if done.code == "hang":
                self.lose()

    def lose(self) -> None:
        """Count a process that died or hung; raise TooManyLost where it was one too many."""
        self.lost += 1
        if self.lost >= MOST_LOST:
            raise TooManyLost

    def fail(self, outcome: Outcome) -> None:
        """Count a failing outcome and keep the shortest few of its code."""
        self.codes[outcome.code] += 1
        self.kills.append(self.operations)
        kept = self.failing.setdefault(outcome.code, [])
        kept.append(outcome)
        kept.sort(key=lambda one: len(one.schedule.operations))
        del kept[self.options.shrunk_per_code :]


class TooManyLost(Exception):
    """The engine has died or hung so often that more of it would say nothing new."""


Progress = Callable[[str, int, int], None]
"""Called with the phase, what is done of it, and how much there is (0 where that is not known)."""


def run_campaign(target: str, options: Options, progress: Progress) -> Campaign:
    """Run everything that was asked for; AdapterError or UsageError where the target cannot be judged at all."""
    started = time.monotonic()
    options = replace(options, profile=options.profile or usual_profile(target))
    with Child(target, options.hang_seconds) as child:
        campaign = Campaign(target, child.one("hello", None, options.profile), options)
        ready = time.monotonic()  # an engine that takes long to start still gets its whole budget
        try:
            _run_all(child, campaign, ready, progress)
        except TooManyLost:
            campaign.notes.append(f"the run ended early: the engine died or hung {campaign.lost} times")
        _shrink_all(child, campaign, progress)
        if options.promises:
            _judge_promises(child, campaign, progress)
    campaign.seconds = time.monotonic() - started
    return campaign


def _run_all(child: Child, campaign: Campaign, ready: float, progress: Progress) -> None:
    options = campaign.options
    if options.corpus:
        held: list[Schedule] = child.one("corpus")
        _run_held(child, campaign, held, len(held), "corpus", progress)
    if options.traffic is not None:
        recorded = options.traffic(campaign.capabilities)
        within = itertools.takewhile(lambda _: not _over_budget(options, ready), recorded)
        _run_held(child, campaign, within, 0, "traffic", progress)
    _run_generated(child, campaign, ready, progress)


def _over_budget(options: Options, started: float) -> bool:
    return options.budget_seconds is not None and time.monotonic() - started > options.budget_seconds


def _run_held(
    child: Child, campaign: Campaign, schedules: Iterable[Schedule], total: int, phase: str, progress: Progress
) -> None:
    """Run schedules that the parent has, a block at a time, so that a lost child costs one of them."""
    source = iter(schedules)
    count = 0
    while block := list(itertools.islice(source, 64)):
        while block:
            jobs = [(CORPUS + number, schedule) for number, schedule in enumerate(block)]
            finished = 0
            try:
                for done in child.call("run", jobs):
                    campaign.absorb(done)
                    finished += 1
                    count += 1
                    progress(phase, count, total)
            except Lost as lost:
                _lost(child, campaign, block[finished], lost)
                finished += 1
                count += 1
            block = block[finished:]


def _run_generated(child: Child, campaign: Campaign, started: float, progress: Progress) -> None:
    options, number = campaign.options, 0
    while number < options.schedules and not _over_budget(options, started):
        stop = min(number + 64, options.schedules)
        try:
            for done in child.call("generate", options.seed, range(number, stop), options.length, options.profile):
                campaign.absorb(done)
                number = done.number + 1
                progress("generated", number, options.schedules)
        except Lost as lost:
            source = _source(child, options)
            _lost(child, campaign, source.schedule(number), lost)
            number += 1


def _source(child: Child, options: Options) -> SeededSource:
    """Return the schedules that the child generates, for those that it can't run to their end."""
    sizes: tuple[Configuration, ...] = child.one("sizes")
    return SeededSource(options.seed, options.length, sizes, lambda one: child.one("hello", one), options.profile)


def _lost(child: Child, campaign: Campaign, schedule: Schedule, lost: Lost) -> None:
    campaign.schedules += 1
    campaign.fail(_lost_outcome(child, schedule, lost))
    campaign.lose()


def _lost_outcome(child: Child, schedule: Schedule, lost: Lost) -> Outcome:
    """Rebuild the lines up to the operation at which the child was lost, and put the fault behind them."""
    operations = schedule.operations[: max(lost.index, 1)]
    head = replace(schedule, operations=operations[:-1])
    try:
        outcome: Outcome = child.one("outcome", head)
    except Lost:
        outcome = Outcome(schedule, initial(child.one("hello", schedule.header.configuration)))
    outcome.lines = [line for line in outcome.lines if line.part != "end"]
    outcome.schedule = replace(schedule, operations=operations)
    if not outcome.failed:
        last = operations[-1]
        outcome.lines.append(Line(len(operations), last, None))
        outcome.fault = Fault(lost.error.code, getattr(last, "request", ""), detail=str(lost.error))
    return outcome


def _shrink_all(child: Child, campaign: Campaign, progress: Progress) -> None:
    failing = [outcome for outcomes in campaign.failing.values() for outcome in outcomes]
    for count, outcome in enumerate(failing):
        progress("shrinking", count, len(failing))
        started = time.monotonic()
        finding = _add_finding(campaign, _shrunk(child, campaign, outcome), len(outcome.schedule.operations))
        if time.monotonic() - started > campaign.options.shrink_seconds:
            campaign.notes.append(
                f"{outcome.code} {finding.fingerprint} could not be shrunk to its end in "
                f"{campaign.options.shrink_seconds:g} s: on another machine its fingerprint may differ"
            )
    for finding in campaign.findings:
        alike = [one for one in campaign.findings if one.outcome.code == finding.outcome.code]
        finding.count = campaign.codes[finding.outcome.code] if len(alike) == 1 else finding.count


def _shrunk(child: Child, campaign: Campaign, outcome: Outcome) -> Outcome:
    seconds = campaign.options.shrink_seconds
    if outcome.code == "hang":
        return _shrunk_by_loss(campaign, outcome, seconds)
    try:
        smaller: Outcome = child.one("shrink", outcome.schedule, outcome.code, seconds)
    except Lost:
        return _shrunk_by_loss(campaign, outcome, seconds)
    except KitError as error:
        campaign.notes.append(f"a {outcome.code} could not be shrunk: {error}")
        return outcome
    if smaller.code == outcome.code:
        return smaller
    campaign.notes.append(f"a {outcome.code} did not show again in the same process: it may depend on time or chance")
    return outcome


def _shrunk_by_loss(campaign: Campaign, outcome: Outcome, seconds: float) -> Outcome:
    """Shrink what kills or hangs its process: each try has a child of its own, with a short watchdog."""
    with Child(campaign.target, min(campaign.options.hang_seconds, 2.0)) as child:
        ended_by: dict[str, Outcome | Lost] = {}

        def fails(candidate: Schedule) -> bool:
            key = repr(candidate.operations)
            try:
                ran: Outcome = child.one("outcome", candidate)
            except Lost as lost:
                ended_by[key] = lost
                return lost.error.code == outcome.code
            ended_by[key] = ran
            return ran.code == outcome.code

        smaller = shrink(outcome.schedule, fails, seconds)
        end = ended_by.get(repr(smaller.operations), outcome)
        return _lost_outcome(child, smaller, end) if isinstance(end, Lost) else end


def _add_finding(campaign: Campaign, outcome: Outcome, shrunk_from: int) -> Finding:
    mark = fingerprint(outcome.schedule, outcome.code)
    for finding in campaign.findings:
        if finding.fingerprint == mark and finding.outcome.code == outcome.code:
            finding.count += 1
            return finding
    finding = Finding(outcome, mark, shrunk_from, url=_known_url(campaign, outcome.code, mark))
    campaign.findings.append(finding)
    return finding


def _known_url(campaign: Campaign, code: str, mark: str) -> str:
    known = (one for one in campaign.options.known if (one.code, one.fingerprint) == (code, mark))
    return next((one.url for one in known), "")


def _judge_promises(child: Child, campaign: Campaign, progress: Progress) -> None:
    for count, name in enumerate(campaign.capabilities.promises):
        progress("promises", count, len(campaign.capabilities.promises))
        campaign.promises.append(_judge_promise(child, campaign, name))
    for result in campaign.promises:
        found = any(finding.outcome.code == f"promise:{result.name}" for finding in campaign.findings)
        if result.result == "broken" and not found:
            empty = Outcome(Schedule(Header(id=f"promise/{result.name}"), ()), initial(campaign.capabilities))
            empty.broken = Broken(result.name, result.sentence)
            url = _known_url(campaign, empty.code, result.name)
            campaign.findings.append(Finding(empty, result.name, 0, url=url))


def _judge_promise(child: Child, campaign: Campaign, name: str) -> PromiseResult:
    broken = [one for one in campaign.findings if one.outcome.code == f"promise:{name}"]
    if broken and broken[0].outcome.broken:
        return PromiseResult(name, "broken", broken[0].outcome.broken.sentence)
    if name not in JUDGED:
        return PromiseResult(name, "not judged", "this version of the kit has no check for it")
    try:
        if name == "not-inert":
            complaint = child.one("inert", campaign.options.profile)
            return PromiseResult(name, "broken" if complaint else "kept", complaint or "")
        if name == "deterministic":
            return _judge_determinism(child, campaign)
    except Lost as lost:
        return PromiseResult(name, "not judged", f"the engine was lost: {lost}")
    return _kept_by_observation(name, campaign)


def _kept_by_observation(name: str, campaign: Campaign) -> PromiseResult:
    """Return that a promise was kept that is looked at whenever it can be, or that it never could be."""
    hits, drains = campaign.marks["hits"], campaign.marks["drains-compared"]
    if name == "strict-boundaries":
        kept, sentence = hits > 0, f"{hits} hits lay on the boundaries" if hits else "nothing was hit"
    elif name == "admits-when-idle" and campaign.capabilities.resets != "never":
        kept, sentence = drains > 0, f"checked in {drains} drains" if drains else "no schedule drained the cache"
    else:
        kept, sentence = campaign.operations > 0, "checked at every operation" if campaign.operations else "nothing ran"
    return PromiseResult(name, "kept" if kept else "not judged", sentence)


def _judge_determinism(child: Child, campaign: Campaign) -> PromiseResult:
    """Run the same schedules here and in a second process with another hash seed and a jittered clock."""
    options = campaign.options
    source = _source(child, options)
    schedules = [source.schedule(number) for number in range(DETERMINISM_SCHEDULES)]
    with Child(campaign.target, options.hang_seconds, hash_seed=12345) as other:
        pairs = zip(schedules, child.call("answers", schedules), other.call("answers", schedules), strict=True)
        for schedule, ours, theirs in pairs:
            difference = first_difference(ours, theirs)
            if difference:
                sentence = (
                    f"schedule {schedule.header.id} is answered in another way by a second process with another "
                    f"PYTHONHASHSEED and a jittered clock, first at line {difference[0]}: {difference[1][:200]}"
                )
                return PromiseResult("deterministic", "broken", sentence)
    return PromiseResult("deterministic", "kept", f"{len(schedules)} schedules answered alike by two processes")


def known_but_unseen(campaign: Campaign) -> Iterator[KnownFault]:
    """Yield the known faults that did not show: unexpected passes."""
    seen = {(finding.outcome.code, finding.fingerprint) for finding in campaign.findings}
    return (one for one in campaign.options.known if (one.code, one.fingerprint) not in seen)


def replay_schedule(target: str, schedule: Schedule, hang_seconds: float = 10.0) -> Outcome:
    """Run one schedule on a target in a watched child, and return its outcome."""
    with Child(target, hang_seconds) as child:
        _require_sizes(child, schedule)
        try:
            outcome: Outcome = child.one("outcome", schedule)
        except Lost as lost:
            return _lost_outcome(child, schedule, lost)
        return outcome


def _require_sizes(child: Child, schedule: Schedule) -> None:
    """UsageError where a cache can be built, and not with the sizes that the schedule asks for."""
    try:
        child.one("hello", schedule.header.configuration)
    except AdapterError as error:
        child.one("hello", None)
        raise UsageError(f"schedule '{schedule.header.id}' asks for sizes that cannot be: {error}") from None
