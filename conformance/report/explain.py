"""`milepost explain`: what a fault code, a promise, a law or a freedom means, and what to do about it."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from milepost.conformance.errors import UsageError
from milepost.conformance.report.layout import both_ends, listed, wrap
from milepost.spec.faults import FAULTS
from milepost.spec.laws import FREEDOMS, LAWS, PROMISES, Law

WIDTH = 80
MOST_NAMES = 3
"""No more schedules and mutants than this are named for one code."""


def explain(code: str) -> str:
    """Return the explanation of a name as text of 80 columns; a law goes by its name or by `law 4`.

    UsageError, with what the name may have meant, where there is none.
    """
    name = "-".join(code.strip().lower().removeprefix("promise:").split())
    for names, write in _writers():
        if name in names:
            return "\n".join(line.rstrip() for line in write(name))
    raise UsageError(_unknown(code, name))


def _writers() -> Sequence[tuple[dict[str, Any], Callable[[str], list[str]]]]:
    return (
        (FAULTS, _fault),
        (PROMISES, _promise),
        (_laws(), lambda name: _law(_laws()[name])),
        (FREEDOMS, _freedom),
    )


def _laws() -> dict[str, Law]:
    """Return the laws by every name that they go by."""
    return {name: law for law in LAWS for name in (law_name(law), f"law-{law.number}", str(law.number))}


def law_name(law: Law) -> str:
    """Return a law's name as one word."""
    return law.name.replace(" ", "-")


def _unknown(code: str, name: str) -> str:
    names = [name for names, _ in _writers() for name in names if not name.isdigit()]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    close += [other for other in names if name and name in other and other not in close][: 3 - len(close)]
    meant = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join([*FAULTS, *PROMISES])}"
    return f"nothing is called '{code}'; {meant}"


@cache
def explanations() -> dict[str, dict[str, Any]]:
    """Return the texts by kind and name."""
    source = resources.files("milepost.conformance.report").joinpath("explanations.toml")
    return tomllib.loads(source.read_text(encoding="utf-8"))


# -- the four forms


def _fault(name: str) -> list[str]:
    kind, text = FAULTS[name], explanations()["fault"][name]
    law = LAWS[kind.law - 1]
    lines = both_ends(name, f"a fault: law {law.number}, {law.name}", WIDTH)
    lines += _body(text)
    lines += _labelled("seen before", [kind.precedent]) if kind.precedent else []
    lines += _labelled("corpus", corpus_ids(name))
    lines += _labelled("see it", [f"milepost run mutant:{mutant}" for mutant in mutants_of(name)])
    return lines


def _promise(name: str) -> list[str]:
    lines = both_ends(name, "a promise: declared by the engine, then checked", WIDTH)
    lines += _body(explanations()["promise"][name])
    lines += _labelled("corpus", corpus_ids(name))
    lines += _labelled("see it", [f"milepost run mutant:{mutant}" for mutant in mutants_of(f"promise:{name}")])
    return lines


def _law(law: Law) -> list[str]:
    text = explanations()["law"][law_name(law)]
    codes = [name for name, kind in FAULTS.items() if kind.law == law.number]
    lines = both_ends(f"law {law.number}, {law.name}", "true of every correct cache", WIDTH)
    lines += ["", *wrap(law.text, WIDTH, "  ")]
    lines += ["", *wrap(text["why"], WIDTH, "  "), "", *wrap(text["codes_say"], WIDTH, "  ")]
    lines += _freedoms(text["freedoms"])
    return [*lines, "", *_labelled("codes", [", ".join(codes)])]


def _freedom(name: str) -> list[str]:
    lines = both_ends(name, "a freedom: no law restricts it", WIDTH)
    lines += ["", *wrap(f"Legal: {FREEDOMS[name]}.", WIDTH, "  ")]
    near = [other for kind in ("fault", "promise", "law") for other, text in explanations()[kind].items()
            if name in text["freedoms"]]
    lines += ["", *wrap(f"It is near to {listed(near)}, and none of these.", WIDTH, "  ")] if near else []
    return [*lines, "", *_labelled("see it", [f"milepost run liberty:{name}"])]


def _body(text: dict[str, Any]) -> list[str]:
    lines = ["", *wrap(text["means"], WIDTH, "  "), "", *wrap(text["why"], WIDTH, "  "), ""]
    lines += [f"      {line}" for line in text["picture"].strip("\n").split("\n")]
    lines += ["", "  Usual causes"]
    for cause in text["causes"]:
        lines += wrap(cause, WIDTH, "  - ")
    lines += ["", "  What helps", *wrap(text["fix"], WIDTH, "  ")]
    return [*lines, *_freedoms(text["freedoms"]), ""]


def _freedoms(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    lines = ["", "  Near it, and legal"]
    for name in names:
        lines += wrap(f"{name}: {FREEDOMS[name]}", WIDTH, "  - ")
    return lines


def _labelled(label: str, values: Sequence[str]) -> list[str]:
    """Return values one a line, with a label before the first."""
    return [line for number, value in enumerate(values)
            for line in wrap(value, WIDTH, f"  {label if not number else '':<13}")]


# -- where to see it


def corpus_ids(name: str) -> list[str]:
    """Return ids of schedules in the corpus that were written for a code or promise: those that begin with it."""
    root = resources.files("milepost.conformance.schedules")
    return sorted(one for one in _ids(root) if one.split("/")[0] == name)[:MOST_NAMES]


def _ids(folder: Traversable) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _ids(entry)
        elif entry.name.endswith(".jsonl"):
            with entry.open(encoding="utf-8") as file:
                yield str(json.loads(file.readline()).get("id", ""))


def mutants_of(code: str) -> list[str]:
    """Return mutants of the reference that are known by a code, those that have no other code first."""
    from milepost.reference.mutants import MUTANTS

    fitting = [one for one in MUTANTS.values() if code in one.codes]
    return [one.name for one in sorted(fitting, key=lambda one: len(one.codes))][:MOST_NAMES]
