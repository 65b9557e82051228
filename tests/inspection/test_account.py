from pathlib import Path

import pytest
from tests.inspection.models import write

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.inspection.account import make_account

pytestmark = pytest.mark.unit


def test_every_tensor_of_a_sound_model_is_used(tmp_path: Path) -> None:
    with open_checkpoint(write(tmp_path)) as checkpoint:
        account = make_account(checkpoint)
        assert list(account.used) == list(checkpoint.tensors)
        assert len(account.norms()) == 9
        assert account.names_of("embed") == ["model.embed_tokens.weight"]
        assert (account.dropped, account.unknown, account.missing) == ({}, [], [])
        assert account.count_idle(checkpoint.tensors) == 0


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.0.extra.weight"] = tensors.pop("model.layers.0.mlp.up_proj.weight")
        del tensors["model.norm.weight"]
        tensors["model.layers.1.self_attn.rotary_emb.inv_freq"] = tensors["model.layers.0.input_layernorm.weight"]

    with open_checkpoint(write(tmp_path, tensors=damage)) as checkpoint:
        account = make_account(checkpoint)
    assert account.unknown == ["model.layers.0.extra.weight"]
    assert account.missing == ["model.norm.weight", "model.layers.0.mlp.up_proj.weight"]
    assert list(account.dropped) == ["model.layers.1.self_attn.rotary_emb.inv_freq"]


def test_experts_that_a_token_does_not_see(tmp_path: Path) -> None:
    with open_checkpoint(write(tmp_path, "Qwen3MoeForCausalLM")) as checkpoint:
        account = make_account(checkpoint)
        stored = 3 * 6 * 3 * 64 * 32  # layers with experts, experts, matrices
        assert account.count_idle(checkpoint.tensors) == stored - stored * 2 // 6
