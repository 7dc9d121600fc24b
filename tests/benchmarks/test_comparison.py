"""The race's own arithmetic and words, with sides whose times are known."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
FAKE = [sys.executable, str(HERE / "fake_side.py")]
ABSENT = ["no-such-folder/bin/python", "vllm_side.py"]


def run(bench: ModuleType, rows: list[Any], **sides: list[str]) -> tuple[list[Any], list[str]]:
    """Race sides, named as in the comparison with `_` for `-`; return the figures and the section."""
    wanted = {name.replace("_", "-"): command for name, command in sides.items()}
    figures, running = bench.run(wanted, rows, rounds=3, seed=1)
    section = bench.report(figures, running, 3, 1, "0.0")
    for side in running.values():
        side.close()
    return figures, section


def line(section: list[str], title: str) -> str:
    return next(one for one in section if one.startswith(f"| {title} "))


def test_ratios_are_to_the_fastest_peer_and_goals_are_judged_by_them(bench: ModuleType, comparison: ModuleType) -> None:
    rows = [
        comparison.Row("match", 8, "met", comparison.Goal(0.5, "best")),
        comparison.Row("append", 8, "missed", comparison.Goal(0.2, "best")),
        comparison.Row("lease", 8, "alone", comparison.Goal(5)),
    ]
    figures, section = run(
        bench, rows, milepost=[*FAKE, "match=40", "append=50", "lease=20"],
        sglang_rust=[*FAKE, "match=100", "append=200"], vllm=[*FAKE, "match=400", "append=100"],
    )
    assert [one.best for one in figures] == ["sglang-rust", "vllm", None]
    assert "| 40 | 100 | 400 |" in line(section, "met")
    assert "| SGLang Rust: 0.4 (0.4 to 0.4, worst 0.4) | 0.4 |" in line(section, "met")
    assert line(section, "met").endswith("| at most 0.5 times the best peer | met |")
    assert "vLLM: 0.5 (" in line(section, "missed") and "| **missed**, 2.5 times as much |" in line(section, "missed")
    assert "at most 5 us | **missed**, 4 times as much |" in line(section, "alone")


def test_rounds_are_paired_before_the_median_is_taken(comparison: ModuleType) -> None:
    figures = comparison.Figures(comparison.Row("match", 8))
    figures.on = {"milepost": [[1, 9, 2], [40], [6]], "vllm": [[4], [100], [4]]}
    assert figures.ratios("vllm") == [0.5, 0.4, 1.5]
    found = comparison.spread(figures.ratios("vllm"))
    assert (found.median, found.worst) == (0.5, 1.5)
    assert figures.median("milepost") == 6


def test_a_quantile_is_of_single_operations(comparison: ModuleType) -> None:
    figures = comparison.Figures(comparison.Row("tail", 8))
    figures.on = {"milepost": [[1.0] * 998, [1.0, 700.0]]}
    assert (figures.quantile("milepost", 0.5), figures.quantile("milepost", 0.999)) == (1, 700)


def test_a_peer_that_is_not_installed_is_said_in_one_line(
    bench: ModuleType, comparison: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [comparison.Row("match", 8, "row", comparison.Goal(0.5, "best"))]
    _, section = run(bench, rows, milepost=[*FAKE, "match=40"], vllm=ABSENT)
    said = [one for one in capsys.readouterr().err.splitlines() if "vLLM" in one]
    assert said == ["vLLM is not installed here (`make peers`): its column is left out"]
    assert not [one for one in section if "| vLLM |" in one]
    assert line(section, "row").endswith("| no peer to compare |")


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raises", "vLLM could not do match of 8: ValueError: no such thing here"),
        ("dies", "vLLM's side has ended: out of luck"),
    ],
)
def test_a_case_that_fails_is_said_and_never_counted(
    bench: ModuleType, comparison: ModuleType, capsys: pytest.CaptureFixture[str], how: str, reason: str
) -> None:
    rows = [comparison.Row("match", 8, "row", comparison.Goal(0.5, "best"))]
    figures, section = run(bench, rows, milepost=[*FAKE, "match=40"], vllm=[*FAKE, f"match={how}"])
    assert reason in capsys.readouterr().err.splitlines()
    assert figures[0].best is None and "| 40 | failed |" in line(section, "row")


def test_our_own_failure_meets_no_goal(bench: ModuleType, comparison: ModuleType) -> None:
    rows = [comparison.Row("match", 8, "row", comparison.Goal(0.5, "best"))]
    _, section = run(bench, rows, milepost=[*FAKE, "match=raises"], vllm=[*FAKE, "match=80"])
    assert line(section, "row").endswith("| not measured |")


class Noted:
    """A side that notes when it is asked."""

    def __init__(self, name: str, asked: list[tuple[str, bool]]) -> None:
        self.name, self.asked, self.cases = name, asked, {"match": ""}

    def ask(self, case: str, size: int, repeat: int, collector: bool) -> list[float]:
        self.asked.append((self.name, collector))
        return [1.0]


def test_every_round_asks_all_sides_in_turns_in_an_order_of_the_seed(
    bench: ModuleType, comparison: ModuleType
) -> None:
    def order(seed: int) -> list[tuple[str, bool]]:
        asked: list[tuple[str, bool]] = []
        sides = {name: Noted(name, asked) for name in ("milepost", "vllm", "freetoken")}
        bench.measure(comparison.Row("match", 8), sides, 4, random.Random(seed))
        return asked[3:]  # the first three prepare

    asked = order(1)
    turns = [asked[start : start + 3] for start in range(0, len(asked), 3)]
    assert len(turns) == 8
    assert all({name for name, _ in turn} == {"milepost", "vllm", "freetoken"} for turn in turns)
    assert [turn[0][1] for turn in turns] == [True, False] * 4
    assert asked == order(1) != order(2)


def test_growth_from_the_smallest_to_the_largest_size_is_said(comparison: ModuleType) -> None:
    small, large = (comparison.Figures(comparison.Row("evict-page", size)) for size in (1000, 100_000))
    small.on, large.on = {"milepost": [[4.0]]}, {"milepost": [[6.0]]}
    assert comparison.flatness([large, small]) == ["`evict-page`: 1.5 times from 1,000 to 100,000"]


def test_rows_in_which_a_peer_is_faster_are_named(comparison: ModuleType) -> None:
    faster, slower = (comparison.Figures(comparison.Row("lease", 8, title)) for title in ("won", "lost"))
    faster.on = {"milepost": [[1.0]], "vllm": [[2.0]], "freetoken": [[9.0]]}
    slower.on = {"milepost": [[3.0]], "vllm": [[2.0]], "freetoken": [[9.0]]}
    assert comparison.slower([faster, slower]) == ["lost: vLLM, 1.5 times"]


def test_only_its_own_section_of_the_results_is_replaced(bench: ModuleType) -> None:
    text = "# Measured\n\n## Judging\n\nold\n\n## Against the peers\n\nstale\n\n## The index\n\nkept\n"
    replaced = bench.replace_section(text, ["## Against the peers", "", "new", ""])
    assert replaced == "# Measured\n\n## Judging\n\nold\n\n## Against the peers\n\nnew\n\n## The index\n\nkept\n"
    added = bench.replace_section("# Measured\n\nold\n", ["## Against the peers", "", "new", ""])
    assert added == "# Measured\n\nold\n\n## Against the peers\n\nnew\n"
    assert bench.replace_section(added, ["## Against the peers", "", "new", ""]) == added


def test_plots_show_every_side_that_was_measured(plots: ModuleType, comparison: ModuleType, tmp_path: Path) -> None:
    rows = [comparison.Figures(comparison.Row("match", size)) for size in (1024, 131_072)]
    for figures in rows:
        figures.on = {"milepost": [[5.0]], "vllm": [[float(figures.row.size)]], "anchor": [[1.0]]}
    written = plots.draw(rows, tmp_path / "plots")
    assert [path.name for path in written] == ["match.svg"]
    assert all(f"<!-- {name} -->" in written[0].read_text() for name in ("Milepost", "vLLM", "memcmp"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--case", "mach"], "no case is called 'mach': match, "),
        (["--rounds", "0"], "there is at least one round"),
        (["--case", "match", "--write"], "--write needs all cases"),
    ],
)
def test_a_wrong_option_is_one_sentence(arguments: list[str], sentence: str) -> None:
    program = HERE.parents[1] / "benchmarks" / "bench.py"
    outcome = subprocess.run(
        [sys.executable, str(program), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert outcome.returncode == 2 and sentence in outcome.stderr.splitlines()[-1]
