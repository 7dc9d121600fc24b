"""What an SGLang is built with: the engine's own options, and the groups of the model that it would serve."""

from __future__ import annotations

from dataclasses import dataclass

LINEAR_LAYERS = (0, 1, 2)
FULL_LAYER = 3
WINDOW_LAYER = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """The engine's own options: tree backend, `--mamba-radix-cache-strategy`, page, overlapped schedule, mixed chunks.

    `chunk` are the tokens between two states that the chunked kernel writes: 64 for its linear attention
    (kernels/ops/attention/fla/chunk_delta_h.py), else what the model's configuration calls `mamba_chunk_size`.
    `window` counts the query's own token and is 0 where no layer has one; `releases` gives the window's part of a
    prompt's lock back once decoding has left it (SGLANG_OPT_RELEASE_PREFILL_SWA). Not `recurrent` is a model of
    attention alone.
    """

    core: str
    strategy: str
    page: int
    overlap: bool
    mixed: bool = False
    chunk: int = 64
    window: int = 0
    releases: bool = False
    recurrent: bool = True

    @property
    def grid(self) -> int:
        """Tokens between two cached states (runtime_context.py:1958): chunk and page divide one another."""
        return max(self.chunk, self.page)

    @property
    def reach(self) -> int:
        """The engine's `sliding_window_size`: the tokens before the query's own (models/inkling.py:1105)."""
        return max(self.window - 1, 0)

    @property
    def slots_each(self) -> int:
        """State slots that one request may need (mem_cache/kv_cache_configurator.py:3062)."""
        if not self.recurrent:
            return 0
        return 3 + (1 + self.overlap if self.extra_buffer else 0)

    @property
    def extra_buffer(self) -> bool:
        """True where a request owns slots that the forward writes checkpoints into."""
        return self.recurrent and self.strategy != "no_buffer"
