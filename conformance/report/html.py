"""report.html: the report of a run as one page that needs nothing else, for a screen and for paper."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from milepost.spec.laws import LAWS

MEANINGS: dict[str, str] = {
    "conformant": "No law and no declared promise was broken, and there is enough evidence to say so.",
    "partial": "Nothing unknown was broken, and some of what a full verdict needs could not be seen.",
    "nonconformant": "A law or a declared promise was broken, or a known fault no longer shows.",
    "inconclusive": "Nothing was broken, and too little was reached to call that a pass.",
}
"""What each result says, in one sentence."""


def render_html(report: dict[str, Any]) -> str:
    """Return the page for a report dictionary; everything in it is escaped, and it loads nothing."""
    return _template().render(
        report=report,
        header=report["header"],
        counts=report["counts"],
        meaning=MEANINGS.get(report["result"], ""),
        law_numbers={law.name: law.number for law in LAWS},
        wanted=[mark for mark in report["marks"] if mark["wanted"] is not None],
        met=[mark for mark in report["marks"] if mark["wanted"] is None],
    )


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.tests["address"] = lambda text: str(text).startswith(("https://", "http://"))
    source = resources.files("milepost.conformance.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source)
