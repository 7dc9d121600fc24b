"""A name stands for a cache or is somebody's mistake, and a cache is verified before it is asked anything."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milepost.conformance.errors import AdapterError, KitError, UsageError
from milepost.conformance.targets import EXTRA_PROBES, Target, build, names_for, resolve
from milepost.reference.cache import ReferenceCache, make
from milepost.spec.capabilities import Capabilities, Configuration, Group

SIZES = Configuration()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a few modules, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in {
        "acme_for_targets": "from milepost.reference.cache import make\nnumber = 7\n",
        "broken_for_targets": "raise RuntimeError('no driver')\n",
        "quitting_for_targets": "raise SystemExit('no GPU')\n",
        "needing_for_targets": "import needing_for\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


# -- names


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("refrence", UsageError, "unknown target 'refrence'; did you mean reference"),
        ("zzz", UsageError, "unknown target 'zzz'; `milepost list` shows what there is"),
        ("acme_for_targets", UsageError, "name a module and its function, such as acme_for_targets:make"),
        ("acme_for_targets:", UsageError, "name a module and its function, such as acme_for_targets:make"),
        ("./acme_for_targets.py", UsageError, "name a module and its function, such as acme_for_targets:make"),
        (":make", UsageError, "unknown target ':make'"),
        ("sub/acme.py:build", UsageError, "name the module, not its file, such as sub.acme:build"),
        ("acme_for_target:make", UsageError, "did you mean acme_for_targets:make?"),
        ("acme_for_targets:mak", UsageError, "has no function 'mak'; did you mean make?"),
        ("acme_for_targets:number", UsageError, "has no function 'number'"),
        ("broken_for_targets:make", AdapterError, "cannot be imported: RuntimeError: no driver at"),
        ("quitting_for_targets:make", AdapterError, "cannot be imported: SystemExit: no GPU at"),
        ("needing_for_targets:make", AdapterError, "No module named 'needing_for'"),
        ("freetoken:page2", UsageError, "target 'freetoken:page2'; there are freetoken:page1, freetoken:page16"),
        ("mutant:", UsageError, "`milepost list --mutants` shows what there is"),
        ("mutant:final-state", UsageError, "unknown mutant 'final-state'; did you mean final-state-is-floored"),
        ("liberty:nothing", UsageError, "unknown liberty 'nothing'"),
        ("stdio:", UsageError, "'stdio:' names no program"),
        ("stdio:  ", UsageError, "names no program"),
        ("stdio:./engine 'half", UsageError, "cannot be split into words: no closing quotation"),
    ],
)
def test_a_name_that_stands_for_nothing_says_what_would(name: str, kind: type[KitError], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        resolve(name)


def test_the_bare_name_of_an_engine_stands_for_all_its_configurations() -> None:
    assert names_for("freetoken") == ["freetoken:page1", "freetoken:page16", "freetoken:window", "freetoken:compressed"]
    assert names_for("reference") == ["reference"]
    assert names_for("milepost") == ["milepost"]
    assert names_for("acme:make") == ["acme:make"]


def test_a_program_that_does_not_exist_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match=r"'\./nothing' cannot be started: No such file or directory"):
        build(resolve("stdio:./nothing --here"), SIZES)


# -- what is built


def declaring(change: Callable[[Capabilities], object]) -> Target:
    """Return a target whose declaration is the reference's with a change."""

    class Changed(ReferenceCache):
        capabilities = property(lambda self: change(make(SIZES).capabilities))

    return Target("changed", Changed)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda declared: None, "its 'capabilities' are no Capabilities: None"),
        (lambda declared: replace(declared, groups=("kv",)), "wrong type"),
        (lambda declared: replace(declared, pools={"kv": "12", "state": 8}), 'pools.kv: expected an integer'),
        (lambda declared: replace(declared, pools={"kv": 12}), "pool 'state' of group 'state' has no size"),
        (lambda declared: replace(declared, overlap=True), "overlap: expected an integer, found true"),
        (lambda declared: replace(declared, promises=("fast",)), "promise 'fast' is none of"),
        (lambda declared: replace(declared, accounts=False), "it promises exact-accounting, and 'accounts' is not"),
        (lambda declared: replace(declared, cells_per_request={"kv": 13}), "fewer cells than the 13 that one request"),
        (lambda declared: replace(declared, groups=(*declared.groups, Group("more", declared.groups[0].kind, "kv",
                                                                            executes="engine"))),
         "it has no method read(cell, group), which executes='engine' offers"),
    ],
)
def test_a_declaration_that_cannot_be_is_the_adapters_error(
    change: Callable[[Capabilities], object], text: str
) -> None:
    with pytest.raises(AdapterError, match=re.escape(text)) as raised:
        build(declaring(change), SIZES)
    assert str(raised.value).endswith("(asked for page 4, chunk 8, pools kv=12 state=8)")


class Partial(ReferenceCache):
    """Lacks a verb that it offers, and takes too little of another."""

    publish = None  # type: ignore[assignment]

    def open(self, request: str, tokens: tuple[int, ...]) -> Any:  # type: ignore[override]
        raise AssertionError


def test_a_verb_that_cannot_be_called_as_it_will_be_is_the_adapters_error() -> None:
    with pytest.raises(AdapterError) as raised:
        build(Target("partial", Partial), SIZES)  # type: ignore[arg-type]
    assert "its method open cannot be called as open(request, tokens, namespace, content)" in str(raised.value)
    assert "it has no method publish(request), which explicit_publish=True offers" in str(raised.value)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (RuntimeError("no such device"), "make failed for 'failing': RuntimeError: no such device at"),
        (SystemExit("no GPU"), "make failed for 'failing': SystemExit: no GPU"),
    ],
)
def test_a_make_that_fails_is_the_adapters_error(made: BaseException, text: str) -> None:
    def failing(configuration: Configuration) -> ReferenceCache:
        raise made

    with pytest.raises(AdapterError, match=re.escape(text)):
        build(Target("failing", failing), SIZES)


def test_a_right_cache_is_built() -> None:
    assert build(resolve("acme_for_targets:make"), SIZES).capabilities == make(SIZES).capabilities


def test_a_target_whose_modules_are_missing_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRA_PROBES, "cache", ("numpy", "absent_torch"))
    with pytest.raises(UsageError, match=r"target 'milepost' needs absent_torch: `pip install 'milepost\[cache\]'`"):
        resolve("milepost")
