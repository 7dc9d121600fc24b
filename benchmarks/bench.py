"""The prefix index against the caches of installed engines, in one run on one machine.

Run `make bench`. Each side is a process of its own; in every round of a row all of them are asked in an order drawn
from the seed, with the garbage collector on and off, so that a busy machine slows them alike. Ratios are paired within
a round. Every value goes to `.milepost/bench.json`; with `--write`, the section "Against the peers" of RESULTS.md and
the plots are written anew.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import random
import sys
from pathlib import Path

from comparison import ANCHOR, NAMES, ROWS, Figures, Row, flatness, slower, table, verdict
from sides import ROOT, Command, Side, SideError, commands

RESULTS = ROOT / "benchmarks" / "RESULTS.md"
HEADING = "## Against the peers"
ABSENT = "{} is not installed here (`make peers`): its column is left out"


def start(wanted: dict[str, Command]) -> dict[str, Side]:
    """Start the sides that are installed; say of each other one in a line that it is not."""
    sides = {}
    for name, command in wanted.items():
        if not Path(command[0]).exists():
            print(ABSENT.format(NAMES[name]), file=sys.stderr)
            continue
        try:
            sides[name] = Side(name, command)
        except SideError as error:
            print(error, file=sys.stderr)
    return sides


def measure(row: Row, sides: dict[str, Side], rounds: int, chance: random.Random) -> Figures:
    """Ask every side that has the case, in turns; a side that fails once is asked no more."""
    figures = Figures(row)
    asked = [name for name, side in sides.items() if row.case in side.cases]
    for name in asked:  # a round that only prepares
        _ask(figures, sides[name], None, True, 1)
    for _ in range(rounds):
        for collector in (True, False):
            for name in chance.sample(asked, len(asked)):
                if name not in figures.errors:
                    _ask(figures, sides[name], figures.on if collector else figures.off, collector, row.repeat)
    for name in figures.errors:
        figures.on.pop(name, None)
        figures.off.pop(name, None)
    return figures


def _ask(
    figures: Figures, side: Side, rounds: dict[str, list[list[float]]] | None, collector: bool, repeat: int
) -> None:
    row = figures.row
    try:
        values = side.ask(row.case, row.size, repeat, collector=collector)
    except SideError as error:
        figures.errors[side.name] = str(error)
        print(error, file=sys.stderr)
        return
    if rounds is not None:
        rounds.setdefault(side.name, []).append(values)


def measure_fresh(row: Row, wanted: dict[str, Command], rounds: int, chance: random.Random) -> Figures:
    """Ask each side in a process of its own, whose memory holds nothing else."""
    figures = Figures(row)
    for _ in range(rounds):
        for name in chance.sample(list(wanted), len(wanted)):
            if name in figures.errors:
                continue
            side = Side(name, wanted[name])
            if row.case in side.cases:
                _ask(figures, side, figures.on, True, 1)
            side.close()
    return figures


def machine() -> str:
    """Describe the machine in a line."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release().split('-')[0]}"


def report(rows: list[Figures], sides: dict[str, Side], rounds: int, seed: int, load: str) -> list[str]:
    """Return the section for RESULTS.md."""
    versions = "; ".join(
        f"{NAMES[name]}: {', '.join(f'{what} {version}' for what, version in side.versions.items())}"
        for name, side in sides.items() if name != ANCHOR
    )
    return [
        HEADING, "",
        f"`make bench` (rounds {rounds}, seed {seed}). {machine()}; load {load}; one thread for torch. {versions}.",
        "",
        "Microseconds, medians; ratios are ours to the best peer's within a round: median, quartiles and worst round.",
        "What takes longer than a millisecond is timed by the thread's own time, since others use the machine too.",
        "A goal is judged by the median with the collector on.", "",
        *table(rows, list(sides)), "",
        "Our cost from the smallest to the largest size:", "", *_list(flatness(rows)), "",
        "Where a peer takes less:", "", *_list(slower(rows)), "",
        "What is timed:", "", *_sentences(rows, sides), "",
        "Plots: `plots/match.svg`, `plots/evict-state.svg`, `plots/evict-page.svg`, `plots/lease.svg`.", "",
    ]


def _list(lines: list[str]) -> list[str]:
    return [f"- {line}" for line in lines or ["nowhere"]]


def _sentences(rows: list[Figures], sides: dict[str, Side]) -> list[str]:
    lines = []
    for case in dict.fromkeys(figures.row.case for figures in rows):
        lines.append(f"- `{case}`")
        lines += [f"  - {NAMES[name]}: {side.cases[case]}" for name, side in sides.items() if case in side.cases]
    return lines


def replace_section(text: str, section: list[str]) -> str:
    """Return the text with its section of that heading replaced, or with the section at its end."""
    before, found, after = text.partition(f"{section[0]}\n")
    if not found:
        return text.rstrip("\n") + "\n\n" + "\n".join(section)
    _, next_heading, rest = after.partition("\n## ")
    return before + "\n".join(section) + (f"\n## {rest}" if next_heading else "")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Time the prefix index beside the caches of installed engines.")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of each row (11)")
    parser.add_argument("--seed", type=int, default=1, help="for the order within the rounds (1)")
    parser.add_argument("--case", action="append", help="only this case; may be given several times")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md and the plots")
    options = parser.parse_args(arguments)
    known = list(dict.fromkeys(row.case for row in ROWS))
    for case in options.case or ():
        if case not in known:
            parser.error(f"no case is called '{case}': {', '.join(known)}")
    if options.rounds < 1:
        parser.error("there is at least one round")
    if options.write and options.case:
        parser.error("--write needs all cases")
    return options


def run(wanted: dict[str, Command], rows: list[Row], rounds: int, seed: int) -> tuple[list[Figures], dict[str, Side]]:
    """Measure the rows, in an order drawn from the seed; return the figures in the rows' own order."""
    chance = random.Random(seed)
    sides = start(wanted)
    present = {name: wanted[name] for name in sides}
    figures: dict[Row, Figures] = {}
    for row in chance.sample(rows, len(rows)):
        print(f"{row.case} {row.size:,}", file=sys.stderr)
        if row.fresh:
            figures[row] = measure_fresh(row, present, min(rounds, 3), chance)
        else:
            figures[row] = measure(row, sides, rounds, chance)
    return [figures[row] for row in rows], sides


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison and print its table."""
    options = parse(arguments)
    load = " ".join(f"{one:.1f}" for one in os.getloadavg()[:1])
    rows = [row for row in ROWS if not options.case or row.case in options.case]
    figures, sides = run(commands(), rows, options.rounds, options.seed)
    load += f" to {os.getloadavg()[0]:.1f}"
    for side in sides.values():
        side.close()
    section = report(figures, sides, options.rounds, options.seed, load)
    print("\n".join(section))
    folder = ROOT / ".milepost"
    folder.mkdir(exist_ok=True)
    (folder / "bench.json").write_text(json.dumps([dataclasses.asdict(one) for one in figures]))
    if options.write:
        import plots

        RESULTS.write_text(replace_section(RESULTS.read_text(), section))
        plots.draw(figures, RESULTS.parent / "plots")
    missed = [one.row.title for one in figures if "missed" in verdict(one)]
    print(f"{len(missed)} goals missed" + "".join(f"\n  {title}" for title in missed), file=sys.stderr)


if __name__ == "__main__":
    main()
