"""A report as workflow commands of GitHub Actions, which show as annotations of a run."""

from typing import Any


def annotations(report: dict[str, Any]) -> list[str]:
    """Return one line for each fault and broken promise, and one for the result; a known fault is only a notice."""
    header = report["header"]
    lines = [_fault(header, fault) for fault in report["faults"]]
    kind = {"conformant": "notice", "partial": "warning"}.get(report["result"], "error")
    sentence = "; ".join(report.get("reasons", [])) or f"{header['engine']} {header['version']}: no law was broken"
    return [*lines, command(kind, f"milepost: {report['result']}", sentence)]


def _fault(header: dict[str, Any], fault: dict[str, Any]) -> str:
    times = f" ({fault['count']} times)" if fault["count"] > 1 else ""
    title = f"{fault['code']} in {header['engine']} {header['version']}{times}"
    if fault["known"]:
        return command("notice", f"known: {title}", f"{fault['known']}\n\n{fault['text']}")
    return command("error", title, fault["text"])


def command(kind: str, title: str, message: str) -> str:
    """Return one workflow command; what would end a property, the message or the line is escaped."""
    return f"::{kind} title={_escaped(title, ':,')}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    for one in "%\r\n" + more:
        text = text.replace(one, f"%{ord(one):02X}")
    return text
