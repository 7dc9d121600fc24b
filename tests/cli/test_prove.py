"""The theorems, as a person asks for them."""

import pytest

from milepost.conformance.targets import EXTRA_PROBES
from milepost.proofs.prover import RESOURCES
from milepost.proofs.theorems import NAMES

from .conftest import Milepost


def test_one_theorem_is_proved_by_name(milepost: Milepost) -> None:
    ended = milepost("prove", "--theorem", "off-grid-resumes-stay-off")
    assert ended.code == 0
    heading, row, summary = ended.out.splitlines()
    assert heading.split() == ["theorem", "scope", "result", "s"]
    assert row.split()[:3] == ["off-grid-resumes-stay-off", "unbounded", "proved"]
    assert summary.startswith("1 of 1 proved, ") and summary.endswith(f"rlimit {RESOURCES}")


def test_a_table_of_all_names_fits_eighty_columns(milepost: Milepost) -> None:
    assert max(map(len, NAMES)) <= 35


def test_an_unknown_theorem_is_answered_with_the_nearest(milepost: Milepost) -> None:
    ended = milepost("prove", "--theorem", "one-ownr")
    assert (ended.code, ended.err) == (2, "milepost: there is no theorem 'one-ownr'; did you mean one-owner?\n")


def test_unknown_is_a_failure_and_a_small_limit_says_so(milepost: Milepost) -> None:
    ended = milepost("prove", "--theorem", "landing", "--rlimit", "1000")
    assert ended.code == 1 and "landing: unknown at 'no step in flight touches a free cell" in ended.out
    assert f"--rlimit 1000 is less than the {RESOURCES}" in ended.out and "0 of 1 proved" in ended.out


def test_without_the_solver_it_says_what_to_install(milepost: Milepost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRA_PROBES, "proofs", ("absent_z3",))
    ended = milepost("prove")
    assert (ended.code, ended.err) == (2, "milepost: the proofs need z3: `pip install 'milepost[proofs]'`\n")


def test_the_teeth_take_no_other_option(milepost: Milepost) -> None:
    ended = milepost("prove", "--teeth", "--seed", "0")
    assert ended.code == 2 and ended.err.startswith("milepost: --teeth looks at every theorem")
