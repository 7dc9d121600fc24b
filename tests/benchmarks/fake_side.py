"""A side whose cache takes as long as it is told: `fake_side.py CASE=MICROSECONDS...`; `CASE=dies` ends the process,
`CASE=raises` cannot be measured."""

from __future__ import annotations

import os
import sys

from side import Case, Measure, serve  # type: ignore[import-not-found]  # a folder of programs


def case(said: str) -> Case:
    def prepare(size: int) -> Measure:
        """What the test said."""
        if said == "dies":
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(1)
        if said == "raises":
            raise ValueError("no such thing here")
        print("engines print what they like")
        return lambda: float(said) * 1000

    return prepare


serve({"fake": "1.0"}, {name: case(said) for name, _, said in (one.partition("=") for one in sys.argv[1:])})
