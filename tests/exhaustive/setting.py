"""What is searched: three requests at most, on five blocks of two tokens, each setting with events of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pelton.engine.limits import SchedulerLimits

VOCAB_SIZE: Final = 2
EOS: Final = 1


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A kind of request. `patience` is how many ticks it may take, 0 as many as it likes."""

    prompt: tuple[int, ...]
    max_tokens: int
    priority: int = 0
    tenant: str = ""
    cache_salt: str = ""
    patience: int = 0
    has_eos: bool = False


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a search starts from, and what may happen in it."""

    name: str
    shapes: tuple[Shape, ...]
    num_requests: int = 3  # that arrive at all
    num_live: int = 3  # at the same time
    num_blocks: int = 5
    block_size: int = 2
    max_num_batched_tokens: int = 4
    max_prefill_chunk: int = 3
    max_num_requests: int = 3
    max_repeat: int = 1
    has_cache: bool = True
    num_ticks: int = 0
    num_pins: int = 0
    pinned: tuple[int, ...] = ()
    budgets: tuple[int, ...] = (1 << 30,)  # tokens of prompts that the pace may choose for a step
    can_interrupt: bool = False  # things happen between the beginning of a step and its end
    limits: SchedulerLimits = field(init=False)

    def __post_init__(self) -> None:
        limits = SchedulerLimits(
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_prefill_chunk=self.max_prefill_chunk,
            max_num_requests=self.max_num_requests,
            max_model_len=self.num_blocks * self.block_size,
            vocab_size=VOCAB_SIZE,
            enable_prefix_caching=self.has_cache,
            max_repeat=self.max_repeat,
        )
        object.__setattr__(self, "limits", limits)


SHORT: Final = Shape(prompt=(0,), max_tokens=3)
GROWING: Final = Shape(prompt=(0, 1), max_tokens=6)
LONG: Final = Shape(prompt=(0, 1, 0, 1, 1), max_tokens=2)
WHOLE: Final = Shape(prompt=(1,), max_tokens=9)  # fills the pool
ALIKE: Final = Shape(prompt=(0, 1, 0, 1, 0), max_tokens=3)  # as LONG, but for its last token
URGENT: Final = Shape(prompt=(0, 1, 1), max_tokens=3, priority=-1)
IDLE: Final = Shape(prompt=(0, 1, 0), max_tokens=5, priority=1)
HASTY: Final = Shape(prompt=(0, 1, 0), max_tokens=4, patience=1)
STOPPING: Final = Shape(prompt=(0, 1), max_tokens=7, has_eos=True)
OTHER: Final = Shape(prompt=(0, 1, 0, 1), max_tokens=3, tenant="other")
SALTED: Final = Shape(prompt=(0, 1, 0, 1), max_tokens=3, cache_salt="x")
PATIENT: Final = Shape(prompt=(1,), max_tokens=7, priority=1)
PUSHY: Final = Shape(prompt=(0,), max_tokens=5, priority=-1)

SETTINGS: Final = {
    setting.name: setting
    for setting in (
        Setting(name="growth", shapes=(SHORT, GROWING, LONG, WHOLE), has_cache=False),
        Setting(name="prefix", shapes=(GROWING, LONG, WHOLE, ALIKE)),
        Setting(name="classes", shapes=(GROWING, URGENT, IDLE), num_ticks=2),
        Setting(name="deadlines", shapes=(GROWING, HASTY, LONG), num_ticks=2),
        Setting(name="tenants", shapes=(GROWING, OTHER, SALTED)),
        Setting(name="repeat", shapes=(GROWING, STOPPING, ALIKE), max_repeat=3),
        Setting(name="interrupted", shapes=(GROWING, LONG, ALIKE), can_interrupt=True),
        Setting(name="paced", shapes=(GROWING, LONG, ALIKE), budgets=(1, 2, 1 << 30)),
        Setting(name="thrice", shapes=(PATIENT, PUSHY), num_requests=6),
        Setting(name="again", shapes=(GROWING, LONG, WHOLE, ALIKE), num_requests=5),
        Setting(name="all", shapes=(GROWING, URGENT, IDLE, HASTY, OTHER, ALIKE), num_ticks=2, budgets=(1, 1 << 30)),
        Setting(
            name="all at once",
            shapes=(GROWING, URGENT, HASTY, OTHER),
            num_ticks=1,
            budgets=(1, 1 << 30),
            can_interrupt=True,
            pinned=(0, 1),
            num_pins=1,
            max_repeat=2,
        ),
        Setting(name="named", shapes=(GROWING, WHOLE, ALIKE), num_blocks=5, pinned=(0, 1), num_pins=2),
    )
}
