"""The kit's own test: every mutant of the reference must die, every liberty must live."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from milepost.conformance.campaign import Campaign, Options, run_campaign
from milepost.reference.liberties import LIBERTIES
from milepost.reference.mutants import MUTANTS

SEED = 20261130
"""Apart from every seed that the generator's constants were tuned on: those are below 1,000."""

FLOOR = 20
"""Kills that a mutant needs by generated schedules, unless a schedule of the corpus kills it first."""


@dataclass(frozen=True, slots=True)
class MutantRow:
    """How a mutant died: kills by corpus and by generated schedules, operations between kills, smallest killer."""

    name: str
    fault_class: str
    wanted: tuple[str, ...]
    codes: tuple[tuple[str, int], ...]
    by_corpus: int
    by_generator: int
    schedules: int
    median_operations: int
    shortest: int
    oversized: bool

    @property
    def killed(self) -> bool:
        """True where an expected code was met, often enough or by the corpus, and shrunk to a readable size."""
        met = any(code in self.wanted for code, _ in self.codes)
        return met and (self.by_corpus > 0 or self.by_generator >= FLOOR or self._by_promise())

    def _by_promise(self) -> bool:
        return all(code.startswith("promise:") for code in self.wanted)


@dataclass(frozen=True, slots=True)
class LibertyRow:
    """Whether a legal oddity passed: its freedom, schedules, and the codes that it was wrongly accused of."""

    name: str
    schedules: int
    operations: int
    codes: tuple[tuple[str, int], ...]

    @property
    def silent(self) -> bool:
        """True where nothing was reported."""
        return not self.codes


LONGEST_KILLER = 15


def try_mutant(name: str, schedules: int, seed: int = SEED) -> MutantRow:
    """Run one mutant: the corpus first, then generated schedules."""
    mutant = MUTANTS[name]
    wanted = tuple(mutant.codes)
    target = f"mutant:{name}"
    promises = any(code.startswith("promise:") for code in wanted)
    hang_seconds = 1.0 if "hang" in wanted else 10.0
    base = Options(seed=seed, hang_seconds=hang_seconds, shrunk_per_code=1)
    corpus = run_campaign(target, replace(base, schedules=0, promises=False), _quiet)
    budget = min(schedules, 5) if "hang" in wanted else schedules
    generated = run_campaign(target, replace(base, schedules=budget, corpus=False, promises=promises), _quiet)
    return _row(name, mutant.fault_class, wanted, corpus, generated)


def _row(name: str, fault_class: str, wanted: tuple[str, ...], corpus: Campaign, generated: Campaign) -> MutantRow:
    codes = corpus.codes + generated.codes
    for finding in generated.findings:
        codes[finding.outcome.code] = max(codes[finding.outcome.code], 1)
    findings = [one for one in corpus.findings + generated.findings if one.shrunk_from]
    sizes = [len(one.outcome.schedule.operations) for one in findings if one.outcome.code in wanted]
    gaps = [later - earlier for earlier, later in zip([0, *generated.kills], generated.kills, strict=False)]
    return MutantRow(
        name,
        fault_class,
        wanted,
        tuple(codes.most_common()),
        sum(count for code, count in corpus.codes.items() if code in wanted),
        sum(count for code, count in generated.codes.items() if code in wanted),
        generated.schedules,
        int(statistics.median(gaps)) if gaps else 0,
        min(sizes, default=0),
        any(size > LONGEST_KILLER for size in sizes),
    )


def try_liberty(name: str, schedules: int, seed: int = SEED) -> LibertyRow:
    """Run one liberty through the corpus, generated schedules and its promises."""
    options = Options(schedules=schedules, seed=seed, shrunk_per_code=1)
    campaign = run_campaign(f"liberty:{name}", options, _quiet)
    codes = campaign.codes
    for finding in campaign.findings:
        codes[finding.outcome.code] = max(codes[finding.outcome.code], 1)
    return LibertyRow(name, campaign.schedules, campaign.operations, tuple(codes.most_common()))


def run_selftest(
    mutants: list[str], liberties: list[str], schedules: int, seed: int, jobs: int
) -> Iterator[MutantRow | LibertyRow]:
    """Yield a row for each, in order; `jobs` children work at a time."""
    work: list[Callable[[], MutantRow | LibertyRow]] = []
    work += [partial(try_mutant, name, schedules, seed) for name in mutants]
    work += [partial(try_liberty, name, schedules, seed) for name in liberties]
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda one: one(), work)


def all_mutants() -> list[str]:
    """Return the names of all mutants."""
    return list(MUTANTS)


def all_liberties() -> list[str]:
    """Return the names of all liberties."""
    return list(LIBERTIES)


def _quiet(phase: str, done: int, total: int) -> None:
    """Show nothing."""
