"""From evidence to one of four results, and to the exit code that a gate reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from milepost.conformance.campaign import Campaign, known_but_unseen
from milepost.conformance.errors import UsageError
from milepost.conformance.profiles import PROFILES, Profile, missing


class Result(StrEnum):
    """What a run says of a cache."""

    CONFORMANT = "conformant"
    PARTIAL = "partial"
    NONCONFORMANT = "nonconformant"
    INCONCLUSIVE = "inconclusive"


@dataclass(slots=True)
class Verdict:
    """The result, and why in sentences; `wanted` has the least count of each mark that the profile asks for."""

    result: Result
    reasons: list[str] = field(default_factory=list)
    wanted: dict[str, int] = field(default_factory=dict)

    def exit_code(self, strict: bool) -> int:
        """Return 0 conformant (or partial, unless strict), 1 nonconformant, 4 inconclusive."""
        if self.result is Result.PARTIAL:
            return 4 if strict else 0
        return {Result.CONFORMANT: 0, Result.NONCONFORMANT: 1, Result.INCONCLUSIVE: 4}[self.result]


def find_profile(name: str) -> Profile:
    """Return the profile called `name`; UsageError where there is none."""
    if name not in PROFILES:
        raise UsageError(f"unknown profile '{name}'; there are {', '.join(PROFILES)}")
    return PROFILES[name]


def choose_profile(campaign: Campaign) -> Profile:
    """Return the profile that was asked for, or the one with the group kinds that the cache has."""
    name = campaign.options.profile
    kinds = frozenset(group.kind for group in campaign.capabilities.groups)
    if name:
        return find_profile(name)
    fitting = [profile for profile in PROFILES.values() if profile.kinds <= kinds]
    return max(fitting, key=lambda profile: len(profile.kinds), default=PROFILES["paged"])


def judge(campaign: Campaign) -> Verdict:
    """Weigh faults, known faults, evidence and what the cache does not offer."""
    profile = choose_profile(campaign)
    kinds = frozenset(group.kind for group in campaign.capabilities.groups)
    lacking = missing(profile, campaign.capabilities, campaign.marks, campaign.operations)
    wanted = dict(profile.wanted(campaign.capabilities, campaign.operations))
    unknown = [finding for finding in campaign.findings if not finding.url]
    unseen = list(known_but_unseen(campaign))
    if unknown or unseen:
        s = "" if len(unknown) == 1 else "s"
        reasons = [f"{len(unknown)} distinct fault{s} or broken promise{s}"] if unknown else []
        reasons += [f"unexpected pass: {one.code} {one.fingerprint} did not show ({one.url})" for one in unseen]
        return Verdict(Result.NONCONFORMANT, reasons, wanted)
    if profile.kinds - kinds:
        absent = ", ".join(sorted(profile.kinds - kinds))
        return Verdict(Result.INCONCLUSIVE, [f"profile {profile.name} needs a group of kind {absent}"], wanted)
    if lacking:
        reasons = [f"too little evidence: {name} was met {got} times of {least}" for name, got, least in lacking]
        return Verdict(Result.INCONCLUSIVE, reasons, wanted)
    reasons = _partial_reasons(campaign, profile, kinds)
    return Verdict(Result.PARTIAL if reasons else Result.CONFORMANT, reasons, wanted)


def _partial_reasons(campaign: Campaign, profile: Profile, kinds: frozenset[str]) -> list[str]:
    reasons = [f"known: {one.outcome.code} {one.fingerprint} ({one.url})" for one in campaign.findings if one.url]
    beyond = sorted(kinds - profile.kinds)
    if beyond:
        reasons.append(f"no profile of this version covers the groups of kind {', '.join(beyond)} with evidence")
    if campaign.capabilities.resets == "never":
        reasons.append("conservation (law 6) cannot be seen: the cache has no reset")
    reasons += [
        f"promise {one.name} was not judged: {one.sentence}" for one in campaign.promises if one.result == "not judged"
    ]
    return reasons
