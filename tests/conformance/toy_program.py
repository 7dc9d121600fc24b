"""A cache behind `stdio:` that knows nothing of Milepost: no sharing, one page and one slot for each request.

Its argument names a way to misbehave, so that each culprit can be told from the others.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

Message = dict[str, Any]

CAPABILITIES = {
    "engine": "toy",
    "version": "1",
    "groups": [{"name": "kv", "kind": "full", "pool": "kv", "page_size": 64, "executes": "engine"}],
    "pools": {"kv": 2},
    "accounts": True,
    "resets": "always",
    "colour": "unknown fields are ignored",
}


class Toy:
    """Requests and the page that each holds."""

    def __init__(self) -> None:
        self.free, self.steps = [1, 0], 0
        self.pages: dict[str, int] = {}
        self.memory: dict[tuple[str, int], Any] = {}

    def open(self, message: Message) -> Message:
        return {"hit": {"length": 0}}

    def extend(self, message: Message) -> Message:
        request = message["request"]
        if request not in self.pages and not self.free:
            return {"refused": {"reason": "no-page", "text": "both pages are taken"}}
        if request not in self.pages:
            self.pages[request] = self.free.pop()
        return {"grant": {"length": message["to"], "table": {"kv": [self.pages[request]]}}}

    def launch(self, message: Message) -> Message:
        self.steps += 1
        return {"launch": {"step": self.steps}}

    def land(self, message: Message) -> Message:
        return {"landing": {"tables": {request: {"kv": [page]} for request, page in self.pages.items()}}}

    def close(self, message: Message) -> Message:
        if message["request"] in self.pages:
            self.free.append(self.pages.pop(message["request"]))
        return {"landing": {"tables": {message["request"]: {"kv": []}}}}

    def reset(self, message: Message) -> Message:
        return {"reset": True}

    def account(self, message: Message) -> Message:
        return {"account": {"kv": {"free": len(self.free), "private": len(self.pages)}}}

    def read(self, message: Message) -> Message:
        return {"read": self.memory.get(tuple(message["cell"]))}

    def write(self, message: Message) -> Message:
        self.memory[tuple(message["cell"])] = message["content"]
        return {"write": True}


def misbehave(manner: str, call: str) -> Message | None:
    """Do what the argument asks for, when its call comes: `close:exit` exits in `close`."""
    when, _, what = manner.partition(":")
    if when != call:
        return None
    if what == "exit":
        print("segmentation fault, said the toy", file=sys.stderr)
        sys.exit(7)
    if what == "sleep":
        time.sleep(60)
    if what == "noise":
        print("loading weights ...")
    if what == "long":
        return {"launch": {"step": 1, "phases": [{"zeros": [["kv", cell] for cell in range(50_000)]}]}}
    if what == "endless":
        while True:
            sys.stdout.write("x" * 65536)
    answer: Message | None = json.loads(what) if what.startswith("{") else None
    return answer


def main() -> None:
    manner, toy = sys.argv[1] if len(sys.argv) > 1 else "", Toy()
    for line in sys.stdin:
        message = json.loads(line)
        call = message["call"]
        answer = misbehave(manner, call)
        if answer is None and call == "hello":
            answer = {"capabilities": CAPABILITIES}
        if answer is None:
            answer = getattr(toy, call)(message) if hasattr(toy, call) else {"unsupported": True}
        print(json.dumps({"id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
