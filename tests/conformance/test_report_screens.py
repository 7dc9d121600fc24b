"""The screen, the page and the annotations that a run ends with say everything, and escape what engines say."""

import copy
import html
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from milepost.conformance.report.github import annotations
from milepost.conformance.report.html import render_html
from milepost.conformance.report.summary import summary_text

VOID = {"meta", "br", "hr", "link", "img", "input"}
FAULT_TEXT = (Path(__file__).parent / "reports" / "torn-hit-through-a-copy.txt").read_text().rstrip()


def mark(name: str, meaning: str, count: int, wanted: int | None) -> dict[str, Any]:
    return {"name": name, "meaning": meaning, "count": count, "wanted": wanted}


REPORT: dict[str, Any] = {
    "milepost": "0.1.0",
    "result": "nonconformant",
    "reasons": ["2 distinct faults or broken promises"],
    "header": {
        "target": "acme.milepost:make", "engine": "acme", "version": "0.9.2", "issues": "https://acme.example/issues",
        "fidelity": {"level": "shimmed", "faked": ["streams", "the scheduler's budget"]}, "suite": "2026.11",
        "profile": "hybrid", "tier": "deterministic", "seed": 1,
    },
    "counts": {
        "schedules": 300, "operations": 12345, "seconds": 12.34,
        "skipped": {"the request is not open": 1400, "evict is not offered": 123},
        "engine_seconds": 5.1, "judging_seconds": 2.0, "judge_ratio": 0.39,
    },
    "marks": [
        mark("hits", "a prompt hit a reusable prefix", 1200, 300),
        mark("hits-inside-longer-kv", "a hit ended though the KV of the reader's next page was in memory", 3, 20),
        mark("restores", "the first step of a request ran on the state of its hit", 77, None),
    ],
    "faults": [
        {
            "code": "torn-hit", "law": "joint boundary", "fingerprint": "3f9c1a77", "count": 12,
            "sentence": "a state that has read fewer tokens than the hit claims is offered", "text": FAULT_TEXT,
            "replay": ".milepost/faults/torn-hit-3f9c1a.jsonl",
            "command": "milepost replay .milepost/faults/torn-hit-3f9c1a.jsonl", "known": None,
        },
        {
            "code": "promise:deterministic", "law": None, "fingerprint": "deterministic", "count": 1,
            "sentence": "two processes answered in two ways", "text": "BROKEN PROMISE deterministic", "replay": "",
            "command": "milepost run acme.milepost:make", "known": "https://acme.example/issues/7",
        },
    ],
    "promises": [
        {"name": "not-inert", "result": "kept", "sentence": "the second prompt hit"},
        {"name": "deterministic", "result": "broken", "sentence": "two processes answered in two ways"},
        {"name": "maximal-hit", "result": "not judged", "sentence": "this version has no check for it"},
    ],
    "unaligned": {
        "rows": [{"what": "requests that ended after computing something", "count": 900},
                 {"what": "of 61 states that ended off the boundaries and could be kept, floored: a later prompt with "
                          "all its tokens hit at the boundary below", "count": 44}],
        "notes": ["What became of a state shows only when a later prompt has all its tokens."],
    },
    "notes": ["a leak could not be shrunk: it took too long"],
}

SCREEN = """\
acme 0.9.2                                                        milepost 0.1.0
  target    acme.milepost:make
  fidelity  shimmed; faked: streams, the scheduler's budget
  settings  suite 2026.11, profile hybrid, tier deterministic, seed 1

NONCONFORMANT                                                            12.34 s
  2 distinct faults or broken promises
  300 schedules, 12,345 operations; judging took 0.39 times the engine's own
  time
  skipped: 1,400 because the request is not open; 123 because evict is not
    offered

Evidence: what was met, of what the profile wants
  hits-inside-longer-kv     3 of 20  TOO LITTLE
    a hit ended though the KV of the reader's next page was in memory
  hits                  1,200 of 300
  also met: restores 77

Promises
  BROKEN      deterministic  two processes answered in two ways
  not judged  maximal-hit    this version has no check for it
  kept        not-inert      the second prompt hit

Unaligned state
  requests that ended after computing something ............................ 900
  of 61 states that ended off the boundaries and could be kept, floored: a
    later prompt with all its tokens hit at the boundary below .............. 44
  What became of a state shows only when a later prompt has all its tokens.

Faults: 2 distinct
  torn-hit  3f9c1a77                                                12 schedules
    a state that has read fewer tokens than the hit claims is offered
    milepost replay .milepost/faults/torn-hit-3f9c1a.jsonl
  promise:deterministic  deterministic                         known, 1 schedule
    two processes answered in two ways
    https://acme.example/issues/7
    milepost run acme.milepost:make

Notes
  a leak could not be shrunk: it took too long"""


class Page(HTMLParser):
    """Collects text and addresses, and complains about tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.text: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.identities: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.identities += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)


def parsed(report: dict[str, Any]) -> Page:
    page = Page()
    page.feed(render_html(report))
    page.close()
    return page


def texts_in(value: object) -> list[str]:
    """Every text that a report holds as a value."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts_in(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts_in(one)]
    return [value] if isinstance(value, str) else []


def evil() -> dict[str, Any]:
    """A report of an engine whose names and messages are markup, commands and control characters."""
    text = '<script>alert(1)</script>"\'&\n::error::%0A\x1b[31m' + "long" * 60

    def spoil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: spoil(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [spoil(one, key) for one in value]
        return text if isinstance(value, str) and key not in ("result", "law") else value

    spoiled: dict[str, Any] = spoil(copy.deepcopy(REPORT))
    return spoiled


def clean() -> dict[str, Any]:
    report = copy.deepcopy(REPORT)
    return {**report, "result": "conformant", "reasons": [], "faults": [], "promises": [], "marks": [], "notes": [],
            "unaligned": {"rows": [], "notes": []}, "counts": {**report["counts"], "skipped": {}, "judge_ratio": None}}


# -- the screen


def test_the_screen_reads_as_it_did() -> None:
    assert summary_text(REPORT) == SCREEN


def test_the_screen_of_a_clean_run_says_so() -> None:
    text = summary_text(clean())
    assert "CONFORMANT" in text and "NONCONFORMANT" not in text
    assert "Faults: none" in text and "Promises: none declared" in text and "Unaligned state: nothing seen" in text


@pytest.mark.parametrize("width", [60, 80, 132])
def test_no_line_of_the_screen_is_wider_than_asked(width: int) -> None:
    chance = random.Random(width)
    for report in (copy.deepcopy(REPORT), clean(), evil()):
        for one in report["marks"]:
            one["count"] = chance.choice((0, 10**6))
        text = summary_text(report, width)
        assert text.isascii()
        assert [line for line in text.splitlines() if len(line) > width] == []


# -- the page


def test_the_page_is_well_formed_and_says_everything() -> None:
    page = parsed(REPORT)
    assert (page.wrong, page.open) == ([], [])
    assert len(page.identities) == len(set(page.identities))
    said = " ".join("".join(page.text).split())
    missing = [text for text in texts_in(REPORT) if " ".join(text.split()) not in said]
    assert [text for text in missing if not text.startswith("https://")] == []
    assert {"https://acme.example/issues", "https://acme.example/issues/7"} <= {
        value for _, name, value in page.attributes if name == "href"
    }
    for number in ("12,345", "1,200", "1,400", "900", "0.39", "12.34"):
        assert number in said


def test_the_page_loads_nothing() -> None:
    page = parsed(REPORT)
    assert not {name for _, name, _ in page.attributes} & {"src", "srcset", "onclick", "onload", "style"}
    assert not {tag for tag, _, _ in page.attributes} & {"script", "link", "img", "iframe"}
    assert "url(" not in render_html(REPORT) and "@import" not in render_html(REPORT)


def test_the_page_reads_in_light_and_dark_and_on_paper() -> None:
    text = render_html(REPORT)
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    assert '<meta name="color-scheme" content="light dark">' in text


def test_the_page_escapes_what_an_engine_says() -> None:
    text = render_html(evil())
    assert "<script" not in text and "alert(1)" in html.unescape(text)
    page = parsed(evil())
    assert (page.wrong, page.open) == ([], [])
    assert not [value for _, name, value in page.attributes if name == "href"]


def test_a_fault_is_shown_as_it_was_printed() -> None:
    blocks = re.findall(r"<pre[^>]*>(.*?)</pre>", render_html(REPORT), re.DOTALL)
    assert [html.unescape(block) for block in blocks] == [FAULT_TEXT, "BROKEN PROMISE deterministic"]


def test_the_page_of_a_clean_run_is_well_formed() -> None:
    page = parsed(clean())
    assert (page.wrong, page.open) == ([], [])


def test_the_page_does_without_what_older_reports_lack() -> None:
    report = clean()
    for name in ("tier", "issues"):
        del report["header"][name]
    assert parsed(report).wrong == []


# -- the annotations


def test_each_fault_is_one_annotation_and_a_known_one_a_notice() -> None:
    lines = annotations(REPORT)
    assert [line.split(" ")[0] for line in lines] == ["::error", "::notice", "::error"]
    assert lines[0].startswith("::error title=torn-hit in acme 0.9.2 (12 times)::FAULT torn-hit   law 4, ")
    assert lines[1].startswith("::notice title=known%3A promise%3Adeterministic in acme 0.9.2::https://acme.example")
    assert lines[2] == "::error title=milepost%3A nonconformant::2 distinct faults or broken promises"


@pytest.mark.parametrize(
    ("result", "kind"),
    [("conformant", "notice"), ("partial", "warning"), ("nonconformant", "error"), ("inconclusive", "error")],
)
def test_the_result_is_an_annotation_of_its_weight(result: str, kind: str) -> None:
    assert annotations({**clean(), "result": result}) == [
        f"::{kind} title=milepost%3A {result}::acme 0.9.2: no law was broken"
    ]


def test_an_annotation_is_one_line_and_cannot_begin_another() -> None:
    for line in annotations(evil()):
        assert "\n" not in line and "\r" not in line
        title = line.removeprefix("::error title=").removeprefix("::notice title=").split("::")[0]
        assert ":" not in title and "," not in title and "%25" in line


def test_an_annotation_decodes_to_the_text() -> None:
    message = annotations(REPORT)[0].split("::", 2)[2]
    decoded = message.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
    assert decoded == FAULT_TEXT
