"""Which kernels are meant by words like op=linear rows=1,8: every key has its values and a default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pelton.backends.cpu import get_detected_isa, get_isa
from pelton.bench.kernels.model_shape import MODEL_SHAPES
from pelton.checkpoint.scheme import USABLE
from pelton.errors import ConfigError, nearest

INSTRUCTION_SETS = ("generic", "avx2", "avx512")
LINEARS = ("linear", "linear_add", "linear_gated")
OPS = (*LINEARS, "attention", "kv_write", "rms_norm", "rotary", "gated", "quantize", "sampling")
MATRICES = ("qkv", "o", "gate_up", "down", "head")
USUAL_SCHEMES = ("Q4_0", "Q4_K", "Q5_0", "Q6_K", "Q8_0", "BF16")
USUAL_ROWS = (1, 2, 3, 4, 8, 12, 16, 32, 128)
USUAL_CONTEXTS = (512, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is measured. `shape` names a model whose sizes are taken."""

    ops: Sequence[str] = OPS
    schemes: Sequence[str] = USUAL_SCHEMES
    matrices: Sequence[str] = MATRICES
    rows: Sequence[int] = USUAL_ROWS
    contexts: Sequence[int] = USUAL_CONTEXTS
    isas: Sequence[str] = ()
    shape: str = "qwen2.5-0.5b"


def list_available_isas() -> tuple[str, ...]:
    """The instruction sets that this machine has kernels for."""
    return INSTRUCTION_SETS[: INSTRUCTION_SETS.index(get_detected_isa()) + 1]


# What may stand behind each key, and the field that it fills; None: positive numbers.
KEYS: Mapping[str, tuple[str, Callable[[], Sequence[str]] | None]] = {
    "op": ("ops", lambda: OPS),
    "scheme": ("schemes", lambda: sorted(USABLE)),
    "matrix": ("matrices", lambda: MATRICES),
    "rows": ("rows", None),
    "context": ("contexts", None),
    "isa": ("isas", list_available_isas),
    "shape": ("shape", lambda: list(MODEL_SHAPES)),
}


def parse_selection(words: Sequence[str]) -> Selection:
    """The selection that `words` make, each KEY=VALUE,VALUE; `all` stands for all values. Raises ConfigError.

    >>> parse_selection(["op=linear", "rows=1,8"]).rows
    (1, 8)
    """
    chosen: dict[str, object] = {"isas": (get_isa(),)}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key not in KEYS:
            raise ConfigError(f"{word!r}: give KEY=VALUE with a known key. {nearest(key, KEYS)}")
        field, known = KEYS[key]
        values = parse_numbers(word, text) if known is None else parse_names(word, text, known())
        if key == "shape" and len(values) > 1:
            raise ConfigError(f"{word!r}: one shape at a time can be measured. Give one of {', '.join(MODEL_SHAPES)}.")
        chosen[field] = values[0] if key == "shape" else values
    return Selection(**chosen)  # type: ignore[arg-type]


def parse_numbers(word: str, text: str) -> tuple[int, ...]:
    """Positive whole numbers with commas between."""
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"{word!r}: {text!r} is not a list of positive numbers like 1,8,32.")
    return tuple(map(int, parts))


def parse_names(word: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names among `known` with commas between, or all of them."""
    if text == "all":
        return tuple(known)
    names = tuple(text.split(","))
    for name in names:
        if name not in known:
            raise ConfigError(f"{word!r}: {name!r} cannot be chosen here. {nearest(name, known)}")
    return names
