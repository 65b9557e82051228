"""A model from tensors to logits, and the passes on the way."""

from dataclasses import replace

import numpy as np
import pytest
from tests.loading.memory_checkpoint import MemoryCheckpoint
from tests.steps import LIMITS

from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.model_spec import LayerSpec, ModelSpec, Rope
from pelton.errors import CheckpointError
from pelton.loading import load_model
from pelton.plan import Plan

pytestmark = pytest.mark.unit

SPEC = ModelSpec(
    architecture="llama",
    vocab_size=11,
    hidden_size=8,
    intermediate_size=12,
    num_heads=2,
    num_kv_heads=1,
    head_dim=4,
    max_position=32,
    layers=(LayerSpec(rope=Rope(theta=1e4, rotary_dim=4)),) * 2,
    norm_eps=1e-5,
    attention_scale=0.5,
    tied_embeddings=True,
)


def tensors():
    shapes = {"model.embed_tokens.weight": (11, 8), "model.norm.weight": (8,), "lm_head.weight": (11, 8)}
    for i in range(2):
        layer = f"model.layers.{i}."
        shapes |= {
            layer + f"self_attn.{n}_proj.weight": (rows, 8) for n, rows in (("q", 8), ("k", 4), ("v", 4), ("o", 8))
        }
        shapes |= {layer + f"mlp.{n}_proj.weight": (12, 8) for n in ("gate", "up")}
        shapes |= {layer + "mlp.down_proj.weight": (8, 12)}
        shapes |= {layer + n: (8,) for n in ("input_layernorm.weight", "post_attention_layernorm.weight")}
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return arrays | {"lm_head.weight": arrays["model.embed_tokens.weight"]}


def test_a_model_is_loaded_and_says_what_it_dropped():
    loaded = load_model(MemoryCheckpoint(tensors(), SPEC), ReferenceBackend(), LIMITS, 32)
    assert loaded.dropped == (("lm_head.weight", "the head is tied to the embedding"),)
    assert loaded.plan.output.shape == ("S", 11)
    assert loaded.spec is SPEC


def test_the_plan_of_a_tiny_llama(golden):
    """A change of a model file or of an op shows here as text."""
    golden.check(
        "plan/llama.txt", str(load_model(MemoryCheckpoint(tensors(), SPEC), ReferenceBackend(), LIMITS, 32).plan)
    )


def test_the_plan_goes_through_the_passes_of_the_backend_in_order():
    seen = []

    def first(plan: Plan) -> Plan:
        seen.append(("first", len(plan.nodes)))
        return Plan(plan.nodes[:-1], plan.inputs, plan.nodes[-2].outputs[0])

    def second(plan: Plan) -> Plan:
        seen.append(("second", len(plan.nodes)))
        return plan

    backend = ReferenceBackend()
    backend.passes = (first, second)
    loaded = load_model(MemoryCheckpoint(tensors(), SPEC), backend, LIMITS, 32)
    assert seen == [("first", len(loaded.plan.nodes) + 1), ("second", len(loaded.plan.nodes))]


def test_sizes_are_checked_before_recording():
    wrong = tensors() | {"model.layers.1.self_attn.q_proj.weight": np.ones((6, 8), np.float32)}
    with pytest.raises(CheckpointError, match=r"q_proj\.weight \[6, 8\] .* expects \[16, 8\]"):
        load_model(MemoryCheckpoint(wrong, SPEC), ReferenceBackend(), LIMITS, 32)


def test_unknown_architecture():
    with pytest.raises(CheckpointError, match=r"'lama' .* Did you mean 'llama'"):
        load_model(MemoryCheckpoint(tensors(), replace(SPEC, architecture="lama")), ReferenceBackend(), LIMITS, 32)
