"""What a router would receive of an engine's KV events, written down in a file."""

from typing import Any


class Subscriber:
    """Takes the place of an engine's publisher; each batch goes through its own encoding, and is decoded untyped."""

    def __init__(self, path: str) -> None:
        self.path = path

    def publish(self, batch: Any) -> None:
        import msgspec

        received = msgspec.msgpack.decode(msgspec.msgpack.encode(batch))
        with open(self.path, "ab") as file:
            file.write(msgspec.json.encode(received) + b"\n")
