"""The files that a run leaves: report.json, junit.xml, report.html, and a replay file for each fault."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from milepost.conformance.campaign import Campaign, Finding
from milepost.conformance.files import write_schedule
from milepost.conformance.lines import replacing
from milepost.conformance.report.html import render_html
from milepost.conformance.report.json_report import build_report
from milepost.conformance.report.junit import render_junit
from milepost.conformance.verdict import Verdict


def write_reports(campaign: Campaign, verdict: Verdict, folder: Path, faults: Path) -> dict[str, Any]:
    """Write the reports to `folder`, a replay file for each fault to `faults`, and return the report.

    Each file is written whole or not at all.
    """
    replays = {
        finding.fingerprint: str(_write_replay(campaign, finding, faults))
        for finding in campaign.findings
        if finding.outcome.schedule.operations
    }
    report = build_report(campaign, verdict, replays)
    texts = {
        "report.json": json.dumps(report, indent=2) + "\n",
        "junit.xml": render_junit(report),
        "report.html": render_html(report),
    }
    for name, text in texts.items():
        with replacing(folder / name) as file:
            file.write(text)
    return report


def _write_replay(campaign: Campaign, finding: Finding, folder: Path) -> Path:
    code = finding.outcome.code.replace(":", "-")
    path = folder / f"{code}-{finding.fingerprint[:6]}.jsonl"
    schedule = finding.outcome.schedule
    header = replace(schedule.header, target=campaign.target)
    write_schedule(path, replace(schedule, header=header))
    return path
