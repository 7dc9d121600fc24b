"""report.json: everything that a run found, in one dictionary with a JSON Schema."""

from __future__ import annotations

import json
import shlex
from importlib import resources
from typing import Any

from milepost import __version__
from milepost.conformance.campaign import Campaign, Finding
from milepost.conformance.marks import MARKS
from milepost.conformance.report.fault_text import fault_report, promise_report
from milepost.conformance.verdict import Verdict, choose_profile
from milepost.spec.laws import PROMISES, law

SUITE = "2026.11"
"""The dated version of schedules and laws; users pin it."""


def build_report(campaign: Campaign, verdict: Verdict, replays: dict[str, str]) -> dict[str, Any]:
    """Return the report of a run; `replays` maps fingerprints to the paths of the replay files."""
    return {
        "milepost": __version__,
        "result": verdict.result.value,
        "reasons": verdict.reasons,
        "header": _header(campaign),
        "counts": _counts(campaign),
        "marks": [
            {"name": name, "meaning": MARKS[name], "count": campaign.marks[name], "wanted": verdict.wanted.get(name)}
            for name in MARKS
            if campaign.marks[name] or name in verdict.wanted
        ],
        "faults": [_fault(campaign, finding, replays.get(finding.fingerprint, "")) for finding in campaign.findings],
        "promises": [
            {"name": one.name, "result": one.result, "sentence": one.sentence or PROMISES[one.name]}
            for one in campaign.promises
        ],
        "unaligned": campaign.unaligned.to_json(),
        "notes": campaign.notes,
    }


def _header(campaign: Campaign) -> dict[str, Any]:
    capabilities = campaign.capabilities
    return {
        "target": campaign.target,
        "engine": capabilities.engine,
        "version": capabilities.version,
        "issues": capabilities.issues,
        "fidelity": {"level": capabilities.fidelity.level, "faked": list(capabilities.fidelity.faked)},
        "suite": SUITE,
        "profile": choose_profile(campaign).name,
        "tier": campaign.options.tier,
        "seed": campaign.options.seed,
    }


def _counts(campaign: Campaign) -> dict[str, Any]:
    engine = campaign.engine_seconds
    return {
        "schedules": campaign.schedules,
        "operations": campaign.operations,
        "skipped": dict(sorted(campaign.skipped.items())),
        "seconds": round(campaign.seconds, 2),
        "engine_seconds": round(engine, 3),
        "judging_seconds": round(campaign.judging_seconds, 3),
        "judge_ratio": round(campaign.judging_seconds / engine, 2) if engine else None,
    }


def _fault(campaign: Campaign, finding: Finding, path: str) -> dict[str, Any]:
    outcome = finding.outcome
    engine = f"{campaign.capabilities.engine} {campaign.capabilities.version}"
    command = replay_command(campaign.target, path)
    write = fault_report if outcome.fault else promise_report
    text = write(outcome, engine, choose_profile(campaign).name, finding.shrunk_from, command)
    broken = outcome.broken
    return {
        "code": outcome.code,
        "law": law(outcome.fault.kind.law).name if outcome.fault else None,
        "fingerprint": finding.fingerprint,
        "count": finding.count,
        "sentence": outcome.fault.kind.happened if outcome.fault else (broken.sentence if broken else ""),
        "text": text,
        "replay": path,
        "command": command,
        "known": finding.url or None,
    }


def replay_command(target: str, path: str) -> str:
    """Return the one line that replays a fault; the file itself names the target."""
    return f"milepost replay {shlex.quote(path)}" if path else f"milepost run {shlex.quote(target)}"


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of report.json."""
    text = resources.files("milepost.conformance.report").joinpath("report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
