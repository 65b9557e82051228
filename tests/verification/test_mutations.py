"""A verifier that always says yes is worthless: every damage to a good copy is found, at the level that it belongs to.

Each mutation changes one thing of a copy that was whole. What even the readers refuse counts as found when it is
opened. The last test prints how many each level found, and fails if one level found none.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.verification.small_model import make_small

from pelton.errors import CheckpointError
from pelton.verification.verify import Options, Progress, verify

pytestmark = pytest.mark.cpu

Weights = dict[str, torch.Tensor]
LAYER = "model.layers.1"


def weights(change: Callable[[Weights], object]) -> Callable[[Path], None]:
    """A mutation of model.safetensors."""

    def mutate(path: Path) -> None:
        loaded = {name: tensor.clone() for name, tensor in load_file(path / "model.safetensors").items()}
        change(loaded)
        whole = {name: tensor.contiguous().clone() for name, tensor in loaded.items()}
        save_file(whole, path / "model.safetensors", metadata={"format": "pt"})

    return mutate


def scaled(name: str, factor: float) -> Callable[[Path], None]:
    return weights(lambda w: w.update({name: w[name] * factor}))


def swapped(one: str, two: str) -> Callable[[Path], None]:
    return weights(lambda w: w.update({one: w[two], two: w[one]}))


def made(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    return weights(lambda w: w.update({name: change(w[name])}))


def file(name: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    """A mutation of a JSON file."""

    def mutate(path: Path) -> None:
        value = json.loads((path / name).read_text())
        changed = change(value)
        (path / name).write_text(json.dumps(value if changed is None else changed))

    return mutate


def config(**fields: Any) -> Callable[[Path], None]:
    return file("config.json", lambda c: c.update(fields))


def rope(**fields: Any) -> Callable[[Path], None]:
    return file("config.json", lambda c: c["rope_parameters"].update(fields))


def generation(**fields: Any) -> Callable[[Path], None]:
    return file("generation_config.json", lambda c: c.update(fields))


def tokenizer(change: Callable[[Any], object]) -> Callable[[Path], None]:
    return file("tokenizer.json", change)


def template(change: Callable[[str], str]) -> Callable[[Path], None]:
    def edit(c: dict[str, Any]) -> None:
        c["chat_template"] = change(c["chat_template"])

    return file("tokenizer_config.json", edit)


def pair_rows(w: torch.Tensor, heads: int = 6) -> torch.Tensor:
    """Half-split pairs as neighbours: what a converter for another family would do."""
    return w.reshape(heads, 2, -1, w.shape[-1]).transpose(1, 2).reshape(w.shape)


def exchange_tokens(t: Any) -> None:
    vocab = t["model"]["vocab"]
    one, two = list(vocab)[300:302]
    vocab[one], vocab[two] = vocab[two], vocab[one]


def set_flag(t: Any, index: int, **flags: bool) -> None:
    t["added_tokens"][index].update(flags)


def cut(path: Path) -> None:
    raw = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(raw[:-4096])


def zero_the_end(path: Path) -> None:
    raw = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(raw[:-4096] + bytes(4096))


def flip_a_bit(path: Path) -> None:
    raw = bytearray((path / "model.safetensors").read_bytes())
    raw[-1001] ^= 1
    (path / "model.safetensors").write_bytes(raw)


def drop_template(path: Path) -> None:
    file("tokenizer_config.json", lambda c: c.pop("chat_template"))(path)


def other_place(path: Path) -> None:
    (path / "chat_template.jinja").write_text("{{ messages[0].content }}")


Q, K, V = (f"{LAYER}.self_attn.{part}_proj.weight" for part in "qkv")
GATE, UP, DOWN = (f"{LAYER}.mlp.{part}_proj.weight" for part in ("gate", "up", "down"))
EXPERT = f"{LAYER}.mlp.experts"
NORM = f"{LAYER}.input_layernorm.weight"

# (model, level that must find it, mutation); "open": the reader refuses it
MUTATIONS: dict[str, tuple[str, str, Callable[[Path], None]]] = {
    "q and k exchanged in half": ("windowed", "L2", made(Q, lambda w: torch.cat((w[60:], w[:60])))),
    "q rows of another pairing": ("dense", "L2", made(Q, pair_rows)),
    "k rows of another pairing": ("dense", "L2", made(K, lambda w: pair_rows(w, 2))),
    "q bias of another pairing": (
        "dense",
        "L2",
        made(f"{LAYER}.self_attn.q_proj.bias", lambda b: pair_rows(b[:, None])[:, 0]),
    ),
    "k permuted with the number of q heads": ("dense", "L2", made(K, lambda w: pair_rows(w, 4))),
    "k and v exchanged": ("dense", "L2", swapped(K, V)),
    "gate and up exchanged": ("dense", "L2", swapped(GATE, UP)),
    "two layers exchanged": ("dense", "L2", swapped(GATE, GATE.replace("1", "2"))),
    "a square matrix transposed": (
        "dense",
        "L2",
        made(f"{LAYER}.self_attn.o_proj.weight", lambda w: w[:, :60].T.contiguous().repeat(1, 2)),
    ),
    "experts sorted as text": (
        "experts",
        "L2",
        swapped(f"{EXPERT}.2.gate_proj.weight", f"{EXPERT}.10.gate_proj.weight"),
    ),
    "gate and up of an expert exchanged": (
        "experts",
        "L2",
        swapped(f"{EXPERT}.3.gate_proj.weight", f"{EXPERT}.3.up_proj.weight"),
    ),
    "router rows exchanged": ("experts", "L2", made(f"{LAYER}.mlp.gate.weight", lambda w: w[[1, 0, *range(2, 12)]])),
    "shared gate negated": ("experts", "L2", scaled(f"{LAYER}.mlp.shared_expert_gate.weight", -1.0)),
    "one added to a norm": ("dense", "L2", made(NORM, lambda w: w + 1)),
    "one taken from a norm": ("windowed", "L2", made(NORM, lambda w: w - 1)),
    "one added to the last norm alone": ("windowed", "L2", made("model.norm.weight", lambda w: w + 1)),
    "norms before and after attention exchanged": (
        "windowed",
        "L2",
        swapped(NORM, f"{LAYER}.post_attention_layernorm.weight"),
    ),
    "q norm and k norm exchanged": (
        "dense",
        "L2",
        swapped(f"{LAYER}.self_attn.q_norm.weight", f"{LAYER}.self_attn.k_norm.weight"),
    ),
    "a bias of zeros": ("dense", "L2", scaled(f"{LAYER}.self_attn.v_proj.bias", 0.0)),
    "a scale of two": ("dense", "L2", scaled(DOWN, 2.0)),
    "a scale of a half in one row": ("dense", "L2", made(DOWN, lambda w: torch.cat((w[:1] / 2, w[1:])))),
    "a tensor of zeros": ("dense", "L2", scaled(UP, 0.0)),
    "a tensor rounded to bfloat16": ("dense", "L2", made(UP, lambda w: w.bfloat16().float())),
    "a tensor rounded to float16": ("dense", "L2", made(UP, lambda w: w.half().float())),
    "one number changed in its last bit": ("dense", "L2", flip_a_bit),
    "a NaN": (
        "dense",
        "L2",
        made(UP, lambda w: torch.where(torch.arange(w.numel()).reshape(w.shape) == 7, torch.nan, w)),
    ),
    "an infinity": (
        "dense",
        "L2",
        made(UP, lambda w: torch.where(torch.arange(w.numel()).reshape(w.shape) == 7, torch.inf, w)),
    ),
    "columns exchanged": ("dense", "L2", made(DOWN, lambda w: w[:, [1, 0, *range(2, w.shape[1])]])),
    "nibbles exchanged": ("dense", "L2", made(UP, lambda w: w.reshape(-1, 2).flip(1).reshape(w.shape))),
    "the embedding shifted by a row": ("dense", "L2", made("model.embed_tokens.weight", lambda w: w.roll(1, 0))),
    "the head shifted by a row": ("dense", "L2", made("lm_head.weight", lambda w: w.roll(1, 0))),
    "the head is the embedding": (
        "dense",
        "L2",
        weights(lambda w: w.update({"lm_head.weight": w["model.embed_tokens.weight"]})),
    ),
    "a file with zeros at its end": ("dense", "L2", zero_the_end),
    "a file cut off": ("dense", "open", cut),
    "a bias dropped": ("dense", "L2", weights(lambda w: w.pop(f"{LAYER}.self_attn.q_proj.bias"))),
    "a norm dropped": ("dense", "L2", weights(lambda w: w.pop(NORM))),
    "an expert dropped": ("experts", "L2", weights(lambda w: w.pop(f"{EXPERT}.11.down_proj.weight"))),
    "a tensor too many": ("dense", "L2", weights(lambda w: w.update({f"{LAYER}.self_attn.rotary.bias": w[NORM]}))),
    "a shorter vocabulary": ("dense", "L2", weights(lambda w: w.update({"lm_head.weight": w["lm_head.weight"][:-8]}))),
    "another epsilon": ("dense", "L1", config(rms_norm_eps=1e-5)),
    "another theta": ("dense", "L1", rope(rope_theta=10000.0)),
    "no scaling": (
        "dense",
        "L1",
        file("config.json", lambda c: c.update(rope_parameters={"rope_type": "default", "rope_theta": 777.0})),
    ),
    "another factor": ("dense", "L1", rope(factor=2.0)),
    "another original length": ("dense", "L1", rope(original_max_position_embeddings=32)),
    "another attention factor": ("dense", "L1", rope(attention_factor=1.0)),
    "an unknown field of scaling": ("dense", "open", rope(mscale_all_dims=1.0)),
    "a window one longer": ("windowed", "L1", config(sliding_window=10)),
    "no window": ("windowed", "L1", config(sliding_window=None)),
    "windows in other layers": ("windowed", "L1", file("config.json", lambda c: c["layer_types"].reverse())),
    "one base for all layers": (
        "windowed",
        "L1",
        file("config.json", lambda c: c["rope_parameters"]["sliding_attention"].update(rope_theta=900.0)),
    ),
    "scaling in windowed layers too": (
        "windowed",
        "L1",
        file("config.json", lambda c: c["rope_parameters"]["sliding_attention"].update(rope_type="linear", factor=3.0)),
    ),
    "another scale of attention": ("windowed", "L1", config(query_pre_attn_scalar=20)),
    "a soft-cap": ("windowed", "L1", config(final_logit_softcapping=30.0)),
    "another activation": ("dense", "L1", config(hidden_act="gelu")),
    "heads grouped otherwise": ("dense", "L1", config(num_key_value_heads=1)),
    "tied": ("dense", "L1", config(tie_word_embeddings=True)),
    "normalised experts": ("experts", "L1", config(norm_topk_prob=True)),
    "fewer experts for a token": ("experts", "L1", config(num_experts_per_tok=2)),
    "the embedding not multiplied": ("scaled", "L1", config(embedding_multiplier=1.0)),
    "the residual not multiplied": ("scaled", "L1", config(residual_multiplier=1.0)),
    "logits not divided": ("scaled", "L1", config(logits_scaling=1.0)),
    "attention not multiplied": ("scaled", "L1", config(attention_multiplier=0.2)),
    "an end dropped": ("dense", "L3", file("generation_config.json", lambda c: c.update(eos_token_id=602))),
    "another end": ("dense", "L3", generation(eos_token_id=[602, 600, 601])),
    "another temperature": ("dense", "L3", generation(temperature=1.0)),
    "no penalty": ("dense", "L3", file("generation_config.json", lambda c: c.update(repetition_penalty=None))),
    "greedy": ("dense", "L3", generation(do_sample=False)),
    "two tokens exchanged": ("dense", "L3", tokenizer(exchange_tokens)),
    "a merge dropped": ("dense", "L3", tokenizer(lambda t: t["model"]["merges"].pop(0))),
    "merges in another order": ("dense", "L3", tokenizer(lambda t: t["model"]["merges"].sort())),
    "another normal form": ("dense", "L3", tokenizer(lambda t: t.update(normalizer=None))),
    "digits cut otherwise": (
        "dense",
        "L3",
        tokenizer(
            lambda t: t["pre_tokenizer"]["pretokenizers"].insert(
                0, {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated", "invert": False}
            )
        ),
    ),
    "a special token that is none": ("dense", "L3", tokenizer(lambda t: set_flag(t, 1, special=False))),
    "an added token that swallows spaces": (
        "dense",
        "L3",
        tokenizer(lambda t: set_flag(t, 1, lstrip=True, rstrip=True)),
    ),
    "no token at the beginning": (
        "dense",
        "L3",
        file("tokenizer_config.json", lambda c: c.update(add_bos_token=False)),
    ),
    "another token at the beginning": (
        "dense",
        "L3",
        file("tokenizer_config.json", lambda c: c.update(bos_token="<|im_start|>")),
    ),
    "no template": ("dense", "L3", drop_template),
    "a template without its last newline": (
        "dense",
        "L3",
        template(lambda text: text.replace("assistant\n", "assistant")),
    ),
    "a template that drops the role": ("dense", "L3", template(lambda text: text.replace("{{ m.role }}", "user"))),
    "a template that forgets the tools": (
        "dense",
        "L3",
        template(lambda text: text.replace("{{ tools | tojson }}", "")),
    ),
    "a template in a place that wins": ("dense", "L3", other_place),
}
LEVELS_OF = {"L1": ("L0", "L1"), "L2": ("L0", "L1", "L2"), "L3": ("L0", "L1", "L3"), "open": ("L0", "L1", "L2")}
FOUND: Counter[str] = Counter()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: make_small(name, root / name) for name in ("dense", "windowed", "experts", "scaled")}


@pytest.fixture
def copies(models: dict[str, Path], tmp_path: Path) -> Iterator[Callable[[str], tuple[Path, Path]]]:
    def copy(name: str) -> tuple[Path, Path]:
        shutil.copytree(models[name], tmp_path / "copy")
        return models[name], tmp_path / "copy"

    yield copy
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)


@pytest.mark.parametrize("name", ["dense", "windowed", "experts", "scaled"])
def test_a_good_copy_is_the_same_bit_for_bit(name: str, copies: Any) -> None:
    report = verify(*copies(name), Options(), Progress())
    assert report.verdict == "LOSSLESS"
    assert report.findings == []
    assert report.logits is not None
    assert report.logits.worst == 0.0


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_damage_is_found(name: str, copies: Any) -> None:
    model, level, mutate = MUTATIONS[name]
    good, bad = copies(model)
    mutate(bad)
    try:
        report = verify(good, bad, Options(levels=LEVELS_OF[level]), Progress())
    except CheckpointError:
        assert level == "open"
        FOUND["open"] += 1
        return
    assert report.verdict == "FAILED", f"{name} was not found: {report.findings}"
    levels = {finding.level for finding in report.findings if finding.weight == "fails"}
    assert level in levels, f"{name} was found at {levels}, expected {level}"
    FOUND[level] += 1


def test_every_level_finds_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(MUTATIONS) >= 60
    if sum(FOUND.values()) < len(MUTATIONS):
        return  # some of the file were run alone
    with capsys.disabled():
        print("\nfound by level:", dict(sorted(FOUND.items())))
    assert set(FOUND) == {"open", "L1", "L2", "L3"}
