"""What a target says differently of the model than its source: field by field, in numbers that a model computes with.

A GGUF holds float32 and keeps some things in another form (Llama 3's stretching as one divisor per frequency, Mistral
as a Llama with a window); where the numbers are the same to a float32's precision nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

from pelton.checkpoint.model_spec import LayerSpec, ModelSpec, Rope
from pelton.checkpoint.rope import rotary_frequencies

RELATIVE: Final = 2e-7  # a float32's rounding, and a little
FREQUENCY: Final = 1e-6
_SAME: Final = {"mistral": "llama"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One field: its name as in `layers[3].window`, what the source says, and what the target says."""

    field: str
    source: object
    target: object


def compare_specs(source: ModelSpec, target: ModelSpec) -> list[Difference]:
    """Every field in which the two are different models. How weights are stored is not among them."""
    found: list[Difference] = []
    for field in fields(ModelSpec):
        ours, theirs = getattr(source, field.name), getattr(target, field.name)
        if field.name == "architecture":
            ours, theirs = _SAME.get(ours, ours), _SAME.get(theirs, theirs)
        if field.name == "layers":
            found += _compare_layers(source, target)
        elif field.name != "weight_dtype" and not is_close(ours, theirs):
            found.append(Difference(field.name, ours, theirs))
    return found


def is_close(ours: object, theirs: object) -> bool:
    """Equal, or numbers that a float32 cannot tell apart."""
    if isinstance(ours, float) and isinstance(theirs, float | int):
        return math.isclose(ours, theirs, rel_tol=RELATIVE)
    return ours == theirs


def _compare_layers(source: ModelSpec, target: ModelSpec) -> Iterator[Difference]:
    if source.num_layers != target.num_layers:
        yield Difference("num_layers", source.num_layers, target.num_layers)
        return
    for index, (ours, theirs) in enumerate(zip(source.layers, target.layers, strict=True)):
        for field in fields(LayerSpec):
            a, b = getattr(ours, field.name), getattr(theirs, field.name)
            same = is_same_rope(a, b, source.max_position) if field.name == "rope" else a == b
            if not same:
                yield Difference(f"layers[{index}].{field.name}", a, b)


def is_same_rope(ours: Rope | None, theirs: Rope | None, max_position: int) -> bool:
    """Whether both turn every position by the same angles, for contexts below and beyond the original length."""
    if ours is None or theirs is None:
        return ours is theirs
    if ours == theirs:
        return True
    if ours.rotary_dim != theirs.rotary_dim:
        return False
    originals = {rope.scaling.original_max_position for rope in (ours, theirs) if rope.scaling is not None} - {0}
    for length in sorted({max_position, *originals, *(2 * length for length in originals)}):
        a, a_factor = rotary_frequencies(ours, length)
        b, b_factor = rotary_frequencies(theirs, length)
        if not math.isclose(a_factor, b_factor, rel_tol=FREQUENCY):
            return False
        if not all(math.isclose(x, y, rel_tol=FREQUENCY) for x, y in zip(a, b, strict=True)):
            return False
    return True
