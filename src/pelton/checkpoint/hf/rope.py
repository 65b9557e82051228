"""The rotary part of a config.json, in each of the spellings that transformers has had.

Version 4 writes `rope_theta`, `partial_rotary_factor` and `rope_scaling` {type or rope_type, ...} side by side;
version 5 puts all of them into `rope_parameters`, for Gemma 3 once per kind of layer. What stands inside the nested
object wins over what stands beside it, as in transformers. A field of a scaling that its kind does not use is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from pelton.checkpoint.fields import Fields
from pelton.checkpoint.model_spec import Rope, RopeScaling

_KINDS = {
    "default": None,
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "llama3": "llama3",
    "longrope": "longrope",
    "su": "longrope",  # the name of Phi-3's first release
}
_INERT = ("finetuned",)  # says how the model was made


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeDefaults:
    """What the rest of the configuration says and a family assumes."""

    head_dim: int
    max_position: int
    theta: float
    original_max_position: int | None = None  # Phi-3 assumes one
    yarn_is_longrope: bool = False  # Phi-3's first files call LongRoPE "yarn"


def read_rope(fields: Fields, defaults: RopeDefaults) -> Rope:
    """The one rotary embedding of all layers."""
    theta = fields.positive("rope_theta", defaults.theta)
    partial = fields.positive("partial_rotary_factor", 1.0)
    original = fields.nullable_integer("original_max_position_embeddings", defaults.original_max_position)
    nested = _get_nested(fields)
    return _make_rope(fields, nested, defaults, theta=theta, partial=partial, original=original)


def read_rope_by_layer_type(fields: Fields, defaults: RopeDefaults, local_theta: float) -> dict[str, Rope]:
    """Gemma 3's two: "full_attention", which takes the scaling, and "sliding_attention", which has its own base."""
    theta = fields.positive("rope_theta", defaults.theta)
    local = fields.positive("rope_local_base_freq", local_theta)
    parameters = fields.mapping("rope_parameters")
    scaling = fields.mapping("rope_scaling")
    by_type: dict[str, Fields | None] = {"full_attention": scaling, "sliding_attention": None}
    if parameters is not None:
        if scaling is not None:
            raise fields.error("has both rope_parameters and rope_scaling; remove the one that is not meant.")
        by_type = {name: parameters.mapping(name) for name in by_type}
        parameters.check_all_read()
    thetas = {"full_attention": theta, "sliding_attention": local}
    return {
        name: _make_rope(fields, nested, defaults, theta=thetas[name], partial=1.0, original=None)
        for name, nested in by_type.items()
    }


def _get_nested(fields: Fields) -> Fields | None:
    parameters = fields.mapping("rope_parameters")
    scaling = fields.mapping("rope_scaling")
    if (
        parameters is not None
        and scaling is not None
        and _plain(fields, "rope_parameters") != _plain(fields, "rope_scaling")
    ):
        raise fields.error("has both rope_parameters and rope_scaling; remove the one that is not meant.")
    return parameters or scaling


def _plain(fields: Fields, name: str) -> dict[str, object]:
    """A scaling without what only one of the spellings has: some programs write both, for each other's sake."""
    renamed = {("rope_type" if key == "type" else key): value for key, value in fields.take(name).items()}
    return {key: value for key, value in renamed.items() if key not in ("rope_theta", "partial_rotary_factor")}


def _make_rope(
    fields: Fields,
    nested: Fields | None,
    defaults: RopeDefaults,
    *,
    theta: float,
    partial: float,
    original: int | None,
) -> Rope:
    scaling = None
    if nested is not None:
        theta = nested.positive("rope_theta", theta)
        partial = nested.positive("partial_rotary_factor", partial)
        scaling = _read_scaling(nested, defaults, original)
        nested.check_all_read(_INERT)
    rotary_dim = int(defaults.head_dim * partial)
    if not 2 <= rotary_dim <= defaults.head_dim or rotary_dim % 2:
        raise fields.error(
            f"partial_rotary_factor {partial} of head_dim {defaults.head_dim} gives {rotary_dim} rotary dimensions; "
            f"expected an even number from 2 to {defaults.head_dim}."
        )
    if scaling is not None and scaling.kind == "longrope":
        for name, factors in (("short_factor", scaling.short_factors), ("long_factor", scaling.long_factors)):
            if len(factors) != rotary_dim // 2 or min(factors) <= 0.0:
                raise fields.error(f"{name} has {len(factors)} entries; expected {rotary_dim // 2}, each above 0.")
    return Rope(theta=theta, rotary_dim=rotary_dim, scaling=scaling)


def _read_scaling(nested: Fields, defaults: RopeDefaults, original: int | None) -> RopeScaling | None:
    legacy = nested.take("type")
    given = nested.text("rope_type", legacy if isinstance(legacy, str) else "default")
    if legacy not in (None, given):
        raise nested.error(f"type is {legacy!r} and rope_type {given!r}; remove the one that is not meant.")
    kind = Fields(nested.source, {"rope_type": given}).choice("rope_type", _KINDS, "default")
    if kind == "yarn" and defaults.yarn_is_longrope:
        kind = "longrope"
    match kind:
        case "linear":
            return RopeScaling(kind="linear", factor=nested.positive("factor"))
        case "dynamic":
            # transformers stretches from max_position_embeddings and does not look at an original length.
            nested.nullable_integer("original_max_position_embeddings")
            factor = nested.positive("factor")
            return RopeScaling(kind="dynamic", factor=factor, original_max_position=defaults.max_position)
        case "yarn":
            return _read_yarn(nested, defaults, _read_original(nested, defaults, original))
        case "llama3":
            return _read_llama3(nested, _read_original(nested, defaults, original))
        case "longrope":
            return _read_longrope(nested, defaults, _read_original(nested, defaults, original))
    return None


def _read_original(nested: Fields, defaults: RopeDefaults, beside: int | None) -> int:
    """The length of pretraining: beside the nested object (which wins), in it, or the only length there is."""
    inside = nested.nullable_integer("original_max_position_embeddings")
    return beside or inside or defaults.max_position


def _read_yarn(nested: Fields, defaults: RopeDefaults, original: int) -> RopeScaling:
    factor = nested.nullable_number("factor")
    return RopeScaling(
        kind="yarn",
        factor=defaults.max_position / original if factor is None else nested.positive("factor"),
        original_max_position=original,
        attention_factor=nested.nullable_number("attention_factor"),
        beta_fast=nested.number("beta_fast", 0.0) or 32.0,
        beta_slow=nested.number("beta_slow", 0.0) or 1.0,
        mscale=nested.nullable_number("mscale"),
        mscale_all_dim=nested.nullable_number("mscale_all_dim"),
        truncate=nested.flag("truncate", True),
    )


def _read_llama3(nested: Fields, original: int) -> RopeScaling:
    scaling = RopeScaling(
        kind="llama3",
        factor=nested.positive("factor"),
        original_max_position=original,
        low_freq_factor=nested.positive("low_freq_factor"),
        high_freq_factor=nested.positive("high_freq_factor"),
    )
    if scaling.low_freq_factor >= scaling.high_freq_factor:
        raise nested.error(
            f"low_freq_factor {scaling.low_freq_factor} must be below high_freq_factor {scaling.high_freq_factor}."
        )
    return scaling


def _read_longrope(nested: Fields, defaults: RopeDefaults, original: int) -> RopeScaling:
    short, long = nested.numbers("short_factor"), nested.numbers("long_factor")
    if not short or not long:
        raise nested.error("short_factor and long_factor are missing; longrope needs both.")
    factor = nested.nullable_number("factor")
    return RopeScaling(
        kind="longrope",
        factor=defaults.max_position / original if factor is None else factor,
        original_max_position=original,
        attention_factor=nested.nullable_number("attention_factor"),
        short_factors=short,
        long_factors=long,
    )
