"""A program behind `stdio:` that shakes hands, and then runs for ever without reading or answering."""

import json
import os
import pathlib
import signal
import sys

CAPABILITIES = {
    "engine": "hanging", "version": "1", "pools": {"kv": 2},
    "groups": [{"name": "kv", "kind": "full", "pool": "kv", "page_size": 64}],
}


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        if message["call"] == "hello":
            print(json.dumps({"id": message["id"], "capabilities": CAPABILITIES}), flush=True)
        else:
            pathlib.Path(os.environ["MILEPOST_TEST_MARKER"]).touch()
            sum(range(10**15))


if __name__ == "__main__":
    main()
