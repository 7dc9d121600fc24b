"""What there is, what it means, and the kit's own test, as a person asks for them."""

import pytest

from milepost.cli.main import COMMANDS
from milepost.conformance.selftest import LibertyRow, MutantRow
from milepost.conformance.targets import SHIPPED
from milepost.reference.liberties import LIBERTIES
from milepost.reference.mutants import MUTANTS
from milepost.spec.faults import FAULTS
from milepost.spec.laws import PROMISES

from .conftest import Milepost


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS]])
def test_every_command_has_a_help_of_eighty_columns(milepost: Milepost, command: list[str]) -> None:
    ended = milepost(*command, "--help")
    assert ended.code == 0 and ended.out.startswith("Usage: milepost ")
    assert max(map(len, ended.out.splitlines())) <= 80


def test_every_target_has_a_line_of_its_own_in_a_log(milepost: Milepost) -> None:
    lines = milepost("list").out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [shipped.name for shipped in SHIPPED]
    assert all("  yes" in line or "run `make peers`" in line for line in lines[1:-1])


def test_mutants_and_liberties_are_listed_by_the_names_that_a_run_takes(milepost: Milepost) -> None:
    out = milepost("list", "--mutants", "--liberties").out
    for name in [f"mutant:{name}" for name in MUTANTS] + [f"liberty:{name}" for name in LIBERTIES]:
        assert any(line.split()[:1] == [name] for line in out.splitlines()), name


@pytest.mark.parametrize("code", [*FAULTS, *PROMISES, "law 4", "shorter-hits"])
def test_every_code_is_explained(milepost: Milepost, code: str) -> None:
    ended = milepost("explain", code)
    assert ended.code == 0 and ended.out.startswith(code) and len(ended.out.splitlines()) > 4


def test_the_kits_own_test_kills_a_mutant_and_lets_a_liberty_pass(milepost: Milepost) -> None:
    only = ("--only", "final-state-is-floored", "--only", "id-order")
    ended = milepost("selftest", *only, "--schedules", "3")
    assert ended.code == 0
    assert "1 of 1 mutants killed, 1 of 1 liberties silent" in ended.out


def test_a_survivor_and_an_accused_liberty_fail_the_kits_own_test(
    milepost: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = MutantRow("final-state-is-floored", "F1", ("over-advanced",), (), 0, 0, 3, 0, 0, False)
    liberty = LibertyRow("id-order", 3, 200, (("leak", 2),))
    monkeypatch.setattr("milepost.cli.selftest.run_selftest", lambda *arguments: iter([mutant, liberty]))
    ended = milepost("selftest", "--only", mutant.name, "--only", liberty.name)
    assert ended.code == 1 and "SURVIVES" in ended.out and "leak x2" in ended.out
    assert [line for line in ended.out.splitlines() if line.startswith("NOT AS IT SHOULD BE")] == [
        "NOT AS IT SHOULD BE: final-state-is-floored", "NOT AS IT SHOULD BE: id-order",
    ]
