"""Windows, caps, scales, multipliers, head sizes, layers without positions, routing: fields that were not followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.catalogue.configs import FAMILIES, make_config, read
from tests.model_files import flags, llama_gguf, u32
from transformers import AutoConfig

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.hf.family import INERT
from pelton.checkpoint.hf.spec import _READERS
from pelton.checkpoint.model_spec import ModelSpec
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def windows(spec: ModelSpec) -> list[int | None]:
    return [layer.window for layer in spec.layers]


@pytest.mark.parametrize("field", ["attn_logit_softcapping", "final_logit_softcapping"])
def test_caps_are_read_and_zero_is_none(field: str) -> None:
    """I1 to I3: a value that was built in, and a zero taken for a cap."""
    name = "attention_softcap" if field.startswith("attn") else "logits_softcap"
    spec = {value: read(make_config("gemma2", **{field: value})) for value in (17.0, 0.0, None)}
    assert getattr(spec[17.0], name) == 17.0
    assert getattr(spec[0.0], name) is None
    assert getattr(spec[None], name) is None
    default = read(make_config("gemma2"))
    assert (default.attention_softcap, default.logits_softcap) == (50.0, 30.0)


def test_scores_of_gemma_are_scaled_by_their_own_field() -> None:
    """I1."""
    assert read(make_config("gemma2", query_pre_attn_scalar=144)).attention_scale == 1 / 12
    assert read(make_config("gemma3", query_pre_attn_scalar=64)).attention_scale == 1 / 8


@pytest.mark.parametrize(
    ("family", "fields", "expected"),
    [
        ("mistral", {"sliding_window": None}, [None] * 4),
        ("mistral", {}, [9] * 4),
        ("gemma2", {}, [9, None, 9, None]),
        ("gemma2", {"layer_types": ["full_attention"] * 3 + ["sliding_attention"]}, [None, None, None, 9]),
        ("gemma3", {"sliding_window_pattern": 2}, [9, None] * 3),
        ("gemma3", {"_sliding_window_pattern": 3}, [9, 9, None] * 2),
        ("gemma3", {}, [9] * 5 + [None]),
        ("gemma3", {"layer_types": ["full_attention"] + ["sliding_attention"] * 5}, [None] + [9] * 5),
        ("qwen2", {"sliding_window": 7}, [None] * 4),
        ("qwen2", {"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 2}, [None, None, 7, 7]),
        ("qwen3", {"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 3}, [None, None, None, 7]),
        ("phi3", {"sliding_window": 2047}, [2047] * 4),
    ],
)
def test_which_layers_have_a_window(family: str, fields: dict[str, Any], expected: list[int | None]) -> None:
    """I4, I6, I7: patterns by list, by period, and by what the class implies."""
    assert windows(read(make_config(family, **fields))) == expected


@pytest.mark.parametrize("pattern", [[1, 1, 1, 0], [1, 0, 0, 1]])
def test_a_one_means_that_the_layer_has_positions(pattern: list[int]) -> None:
    """I8: read the other way around in 27 of 36 layers."""
    spec = read(make_config("smollm3", no_rope_layers=pattern))
    assert [int(layer.rope is not None) for layer in spec.layers] == pattern


def test_multipliers_of_granite() -> None:
    """I11: logits_scaling divides, and nothing of the four shows in greedy answers alone."""
    fields = {
        "embedding_multiplier": 12.0,
        "attention_multiplier": 0.0078,
        "residual_multiplier": 0.22,
        "logits_scaling": 8.0,
    }
    spec = read(make_config("granite", **fields))
    numbers = (spec.embedding_multiplier, spec.attention_scale, spec.residual_multiplier, spec.logits_divisor)
    assert numbers == (12.0, 0.0078, 0.22, 8.0)


@pytest.mark.parametrize("family", [name for name, config in FAMILIES.items() if "head_dim" in config])
def test_heads_need_not_divide_the_hidden_size(family: str) -> None:
    """I13: head_dim was taken to be hidden_size / num_attention_heads."""
    spec = read(make_config(family, head_dim=20))
    assert (spec.head_dim, spec.q_size, spec.kv_size) == (20, 80, 40)
    if not family.startswith("gemma"):
        assert spec.attention_scale == 20**-0.5


# A field of each kind that another family has: where it would be stepped over, it is refused.
FOREIGN: dict[str, Any] = {
    "attn_logit_softcapping": 40.0,
    "attention_multiplier": 0.1,
    "logit_scale": 0.0625,
    "embedding_multiplier": 2.0,
    "residual_multiplier": 0.5,
    "scale_emb": 12.0,
    "clip_qkv": 8.0,
    "attention_chunk_size": 8192,
    "attn_temperature_tuning": True,
    "no_rope_layers": [1, 0, 1, 0],
    "use_qk_norm": True,
    "parallel_residual": True,
    "layer_types": ["linear_attention"] * 4,
    "kv_lora_rank": 512,
    "n_group": 8,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "lm_head_bias": True,
}


@pytest.mark.parametrize("field", FOREIGN)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_field_is_followed_or_refused(family: str, field: str) -> None:
    """I14, A22, J3: nothing that is written has no effect; both its readers and its absence are checked elsewhere."""
    config = make_config(family)
    try:
        spec = read({**config, field: FOREIGN[field]})
    except CheckpointError as error:
        if field not in str(error):
            raise
    else:
        assert spec != read(config), f"{field} is read and changes nothing"


# Fields that mean something only beside another one, which the mutations below do not set.
CONDITIONAL = {"use_sliding_window", "sliding_window", "max_window_layers", "mlp_only_layers", "no_rope_layer_interval"}
CONDITIONAL |= {"original_max_position_embeddings"}


def mutations(value: Any) -> list[Any]:
    """Other values of the same kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * 2, value + 1, max(1, value // 2)]
    if isinstance(value, float):
        return [value / 2 if value else 0.5]
    if isinstance(value, list):
        return [value[:-1], ["full_attention"] * len(value), ["sliding_attention"] * len(value)]
    if isinstance(value, dict):
        return [{**value, "rope_theta": 3.0}, {**value, "unheard_of": 1}]
    return ["relu", "unheard_of"] if isinstance(value, str) else [2, 0.5, True, "unheard_of"]


def has_effect(config: dict[str, Any], field: str) -> bool:
    """Whether some other value of the field makes another model, or is refused."""
    expected = read(config)
    for value in mutations(config[field]):
        try:
            if read({**config, field: value}) != expected:
                return True
        except CheckpointError:
            return True
    return False


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_that_transformers_writes_has_an_effect_or_is_known_to_have_none(family: str) -> None:
    """I14, A22: the account of fields, over all of a class; and a file without its defaults is the same model."""
    known, _ = _READERS[FAMILIES[family]["architectures"][0]]
    model_type = {"gemma3": "gemma3_text"}.get(family, family)
    theirs = AutoConfig.for_model(model_type, **make_config(family))
    config, short = theirs.to_dict(), theirs.to_diff_dict()
    inert = INERT | known.inert | CONDITIONAL
    fields = [name for name in config if name not in inert and not name.startswith("_")]
    assert [name for name in fields if not has_effect(config, name)] == []
    assert read(short) == read(config)


@pytest.mark.parametrize("family", ["qwen2_moe", "qwen3_moe"])
def test_weights_of_experts_are_normalised_where_the_field_says_so(family: str) -> None:
    """J2, J3."""
    for value in (True, False):
        spec = read(make_config(family, norm_topk_prob=value))
        assert spec.experts is not None
        assert spec.experts.normalised is value


def test_windows_of_a_gguf(tmp_path: Path) -> None:
    """I4, I6: a period or a list, and 0 for none."""
    keys = {"ARCH__attention__sliding_window": u32(9), "ARCH__attention__key_length": u32(4)}
    for pattern, expected in ((u32(2), [9, None]), (flags([0, 1]), [None, 9]), (None, [9, 9])):
        changes = {**keys, "ARCH__attention__sliding_window_pattern": pattern}
        (tmp_path / "x.gguf").write_bytes(llama_gguf("gemma3", **changes))
        with open_checkpoint(tmp_path / "x.gguf") as checkpoint:
            assert windows(checkpoint.spec) == expected
    (tmp_path / "x.gguf").write_bytes(llama_gguf("phi3", ARCH__attention__sliding_window=u32(0)))
    with open_checkpoint(tmp_path / "x.gguf") as checkpoint:
        assert windows(checkpoint.spec) == [None, None]
