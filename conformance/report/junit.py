"""junit.xml: one test case for each law, each promise and the evidence, so that a CI shows them as tests."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from milepost.spec.laws import LAWS


def render_junit(report: dict[str, Any]) -> str:
    """Return the report as JUnit XML; a known fault is a skipped case with its URL."""
    header = report["header"]
    name = _clean(f"milepost {header['target']}")
    suite = ElementTree.Element("testsuite", name=name, time=str(report["counts"]["seconds"]))
    for one in LAWS:
        _case(suite, f"law {one.number}, {one.name}", [f for f in report["faults"] if f["law"] == one.name])
    for promise in report["promises"]:
        case = _case(suite, f"promise {promise['name']}", [])
        if promise["result"] == "broken":
            ElementTree.SubElement(case, "failure", message=_clean(promise["sentence"]))
        elif promise["result"] == "not judged":
            ElementTree.SubElement(case, "skipped", message=_clean(promise["sentence"]))
    _verdict_case(suite, report)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in suite)))
    suite.set("skipped", str(sum(case.find("skipped") is not None for case in suite)))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, name: str, faults: list[dict[str, Any]]) -> ElementTree.Element:
    case = ElementTree.SubElement(suite, "testcase", classname="milepost", name=name)
    unknown = [fault for fault in faults if not fault["known"]]
    if unknown:
        message = ", ".join(f"{fault['code']} {fault['fingerprint']}" for fault in unknown)
        failure = ElementTree.SubElement(case, "failure", message=message)
        failure.text = _clean("\n\n".join(fault["text"] for fault in unknown))
    elif faults:
        ElementTree.SubElement(case, "skipped", message="known: " + ", ".join(fault["known"] for fault in faults))
    return case


def _verdict_case(suite: ElementTree.Element, report: dict[str, Any]) -> None:
    case = _case(suite, f"result {report['result']}", [])
    if report["result"] in ("inconclusive", "nonconformant"):
        ElementTree.SubElement(case, "failure", message=_clean("; ".join(report["reasons"])))


def _clean(text: str) -> str:
    """Leave out what XML cannot hold: an engine's message may contain control characters."""
    return "".join(one for one in text if one in "\n\t" or (ord(one) >= 32 and one not in "\ufffe\uffff"))
