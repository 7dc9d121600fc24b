"""The target `lockstep` is judged like any other, and a difference is a fault that says where."""

from pathlib import Path

from .conftest import Milepost

PARTED = '''
from milepost.cli.lockstep import lockstep
from milepost.optimized.cache import PrefixCache


class Sloppy(PrefixCache):
    def open(self, request, tokens, namespace, content):
        return super().open(request, tokens, (), content)


make = lockstep(lambda sizes: Sloppy(sizes, warns=False))
'''


def test_both_caches_are_run_side_by_side(milepost: Milepost) -> None:
    ended = milepost("run", "lockstep", "--schedules", "10")
    assert ended.code in (0, 4)
    assert "Faults: none" in ended.out and "milepost lockstep" in ended.out


def test_a_difference_is_a_fault_that_names_the_operation_and_both_answers(milepost: Milepost, folder: Path) -> None:
    (folder / "parted_in_lockstep.py").write_text(PARTED)
    ended = milepost("run", "parted_in_lockstep:make", "--schedules", "0")
    assert ended.code == 1 and "FAULT crash" in ended.out
    told = " ".join(ended.out.split())
    assert "Difference: operation " in told and "the reference says " in told
