"""Files, dtypes and quantized tensors: shards, indices, metadata, scales, numbers that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.catalogue.configs import make_config, read
from tests.fakes import TinyModel, write_safetensors
from tests.inspection.models import change, found, ids, inspect, shard, write
from tests.model_files import safetensors_bytes, safetensors_of

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.dequantize import dequantize
from pelton.checkpoint.hf.safetensors import read_safetensors
from pelton.errors import CheckpointError
from pelton.inspection.scan import scan

pytestmark = pytest.mark.unit


def test_a_shard_that_is_missing(tmp_path: Path) -> None:
    """M3: memory that nobody had written was used."""
    shard(write(tmp_path))
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"names model-00002-of-00002\.safetensors, which is not there"):
        open_checkpoint(tmp_path)


def test_a_model_behind_links_is_read(tmp_path: Path) -> None:
    """M6: the caches of hubs are links, and a link has a size of its own."""
    blobs = write(tmp_path / "hub" / "blobs")
    snapshot = tmp_path / "hub" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(file)
    with open_checkpoint(snapshot) as checkpoint:
        assert checkpoint.weight_bytes == 626_432
    assert inspect(snapshot).refusals == []


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize("other", [ENTRY, {**ENTRY, "data_offsets": [8, 16]}, {**ENTRY, "dtype": "I32"}])
def test_a_name_that_stands_in_a_header_twice(tmp_path: Path, other: dict[str, Any]) -> None:
    """M9."""
    header = f'{{"a": {json.dumps(ENTRY)}, "a": {json.dumps(other)}}}'.encode()
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes(header, bytes(other["data_offsets"][1])))
    with pytest.raises(CheckpointError, match="'a' stands in an object twice"):
        read_safetensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}])
def test_metadata_may_be_there_empty_or_absent(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    """M10."""
    header: dict[str, Any] = {"a": ENTRY} if metadata is None else {"__metadata__": metadata, "a": ENTRY}
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes(header, bytes(8)))
    assert list(read_safetensors(tmp_path / "x.safetensors")) == ["a"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw + bytes(8), "has bytes behind its tensors"),  # M11
        (lambda raw: raw[:-4], "is truncated"),  # M7
        (lambda raw: raw.replace(b"[2, 3]", b"[2, 4]"), "of shape"),  # M7
        (lambda raw: raw.replace(b"[0, 24]", b"[4, 28]"), "leaves a hole"),  # M7
    ],
)
def test_a_header_that_does_not_fit_the_file(tmp_path: Path, damage: Any, message: str) -> None:
    """M7, M11."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(damage(safetensors_of({"a": np.zeros((2, 3))})))
    with pytest.raises(CheckpointError, match=message):
        read_safetensors(path)


def test_numbers_that_are_none_are_found_before_they_spread(tmp_path: Path) -> None:
    """L21, K1: a quantizer met them and made a file of nothing."""

    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.1.mlp.gate_proj.weight"][5, 5] = np.nan

    write(tmp_path, tensors=damage)
    report = inspect(tmp_path)
    with open_checkpoint(tmp_path) as checkpoint:
        report.add_numbers(scan(checkpoint.tensors, checkpoint.read))
    assert "weights.not-finite" in ids(report)


def test_the_dtype_of_the_weights_and_that_of_the_configuration(tmp_path: Path) -> None:
    """K4: bfloat16 weights were cast to the float16 that a field named."""
    model = TinyModel(dtype="BF16")
    model.write(tmp_path)
    assert "config.dtype" not in found(tmp_path)
    change(tmp_path / "config.json", {"torch_dtype": "float16"})
    assert "config.dtype" in found(tmp_path)
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.read("model.norm.weight").scheme == "BF16"


FOREIGN_METHODS: dict[str, dict[str, Any]] = {
    "hqq": {"quant_method": "hqq"},
    "aqlm": {"quant_method": "aqlm"},
    "exl2": {"quant_method": "exl2"},
    "no method": {"bits": 4, "group_size": 64},
    "a list": {"quant_method": ["gptq"]},
}


@pytest.mark.parametrize("name", FOREIGN_METHODS)
def test_an_unknown_quantization_is_refused(name: str) -> None:
    """L11, L18, L19: mapped to what was nearest, or not looked at, and loaded as if dense."""
    with pytest.raises(CheckpointError, match=r"quantiz|quant_method"):
        read(make_config("llama", quantization_config=FOREIGN_METHODS[name]))


def test_the_quantization_of_mlx_is_refused() -> None:
    """L18: overrides of single layers were not read; the field itself is not known here."""
    with pytest.raises(CheckpointError, match="'quantization'"):
        read(make_config("llama", quantization={"group_size": 64, "bits": 4}))


def test_scales_of_a_cache_are_told(tmp_path: Path) -> None:
    """L20: consumed by some, ignored or taken for one by others."""

    def add(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.0.self_attn.k_scale"] = np.ones(1, dtype=np.float32)

    assert "quantization.cache-scales" in found(write(tmp_path, tensors=add))


def test_exceptions_that_name_no_module_are_told(tmp_path: Path) -> None:
    """L10: patterns went stale when modules were renamed."""
    quantization = {"quant_method": "gptq", "bits": 4, "group_size": 32, "modules_to_not_convert": ["visual.blocks"]}
    assert "quantization.ignore" in found(write(tmp_path, config={"quantization_config": quantization}))


def test_a_quantized_weight_whose_scale_was_dropped(tmp_path: Path) -> None:
    """L5, L16: saved without them, and still loaded."""
    write(tmp_path)
    tensors = {"model.layers.0.mlp.up_proj.qweight": np.zeros((8, 8), dtype=np.float32)}
    write_safetensors(tmp_path / "model.safetensors", TinyModel().tensors() | tensors)
    assert "quantization.scales" in found(tmp_path)


FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
ONE = 0x38  # of F8_E4M3
Stored = dict[str, tuple[str, list[int], bytes]]


def write_fp8(directory: Path, *shards: Stored) -> Path:
    """A directory of linears in 8-bit floats, each dict a shard."""
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(make_config("llama", quantization_config=FP8)))
    weight_map = {}
    for number, stored in enumerate(shards):
        header, body = {}, b""
        for name, (dtype, shape, raw) in stored.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(raw)]}
            body += raw
            weight_map[name] = f"model-{number}.safetensors"
        (directory / f"model-{number}.safetensors").write_bytes(safetensors_bytes(header, body))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return directory


def fp8(name: str, scale: float | None, dtype: str = "F32") -> Stored:
    """A matrix of ones and its scale."""
    stored: Stored = {f"{name}.weight": ("F8_E4M3", [2, 32], bytes([ONE]) * 64)}
    if scale is not None:
        raw = np.float32(scale).tobytes()
        stored[f"{name}.weight_scale"] = (dtype, [1], raw if dtype == "F32" else raw[-1:])
    return stored


def test_a_scale_in_another_shard_than_its_weight(tmp_path: Path) -> None:
    """L8."""
    stored = fp8("a", 3.0)
    weight, scale = ({name: stored[name]} for name in stored)
    with open_checkpoint(write_fp8(tmp_path, weight, scale)) as checkpoint:
        assert (dequantize(checkpoint.read("a.weight")) == 3.0).all()


def test_each_of_q_k_and_v_has_its_own_scale(tmp_path: Path) -> None:
    """L13."""
    stored = fp8("q", 1.0) | fp8("k", 2.0) | fp8("v", 4.0)
    with open_checkpoint(write_fp8(tmp_path, stored)) as checkpoint:
        values = [dequantize(checkpoint.read(f"{name}.weight")).max() for name in "qkv"]
    assert values == [1.0, 2.0, 4.0]


def test_8_bit_floats_without_a_scale(tmp_path: Path) -> None:
    """L5."""
    write_fp8(tmp_path, fp8("a", 1.0) | fp8("b", None))
    assert "quantization.scales" in found(tmp_path)
    with open_checkpoint(tmp_path) as checkpoint, pytest.raises(CheckpointError, match=r"b\.weight.* no scale"):
        checkpoint.read("b.weight")


@pytest.mark.parametrize("dtype", ["U8", "I8", "F8_E4M3"])
def test_a_scale_of_another_dtype_is_never_taken_for_a_number(tmp_path: Path, dtype: str) -> None:
    """L7: exponents of eight bits were read as integers."""
    with pytest.raises(CheckpointError, match=f"dtype {dtype}"):
        open_checkpoint(write_fp8(tmp_path, fp8("a", 1.0, dtype))).read("a.weight")


def test_a_file_that_ends_in_zeros(tmp_path: Path) -> None:
    """M4: space was reserved, and the rest never came."""

    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["lm_head.weight"][:] = 0.0
        tensors["z"] = tensors.pop("lm_head.weight")

    directory = write(tmp_path, tensors=damage)
    assert "files.zero-tail" in found(directory)


def test_copied_files_are_counted(tmp_path: Path) -> None:
    """G7: which of the files that matter are there is on the screen."""
    used = inspect(write(tmp_path)).num_files
    (tmp_path / "generation_config.json").unlink()
    assert inspect(tmp_path).num_files == used - 1
