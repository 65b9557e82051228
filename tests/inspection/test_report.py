import json
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import CONFIGS
from tests.inspection.models import inspect, write
from tests.model_files import safetensors_of

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.file_hash import compute_sha256
from pelton.inspection import report as module
from pelton.inspection.report import SCHEMA, SchemeShare, hash_files
from pelton.inspection.scan import scan
from pelton.inspection.subject import open_subject

pytestmark = pytest.mark.unit


def test_a_sound_model(tmp_path: Path) -> None:
    report = inspect(write(tmp_path))
    assert report.refusals == []
    assert report.model["architecture"] == "llama"
    assert report.num_parameters == 156_608
    assert report.schemes == [SchemeShare("F32", 39, 156_608, 626_432)]
    assert report.num_files == 5
    document = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert (document["schema"], document["is_refused"]) == (SCHEMA, False)
    assert document["tensors"] == {}


def test_experts_count_for_each_token_as_far_as_it_sees_them(tmp_path: Path) -> None:
    report = inspect(write(tmp_path, "Qwen3MoeForCausalLM"))
    assert report.num_active_parameters < report.num_parameters


def test_tensors_that_make_a_model_refused(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        for name in [name for name in tensors if name.startswith("model.layers.2.")]:
            del tensors[name]
        tensors["model.extra"] = np.zeros(2, dtype=np.float32)

    report = inspect(write(tmp_path, tensors=damage))
    assert len(report.refusals) == 2
    assert "model.extra is in no place of the model" in report.refusals[0]
    assert "model.layers.2.input_layernorm.weight" in report.refusals[1]
    (finding,) = [finding for finding in report.findings if finding.id == "weights.layers"]
    assert "layer 2 is the first that is missing" in finding.sentence


def test_sizes_and_schemes_that_loading_would_refuse(tmp_path: Path) -> None:
    report = inspect(write(tmp_path, config={"intermediate_size": 95}))
    assert "this model expects [190, 64]" in report.refusals[0]

    def cut(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.0.self_attn.k_proj.weight"] = np.zeros((64, 64), dtype=np.float32)
        tensors["model.layers.0.self_attn.q_proj.weight"] = np.zeros((32, 64), dtype=np.float32)

    report = inspect(write(tmp_path, tensors=cut))
    assert "in parts of 64 + 32 + 32 rows" in report.refusals[0]


@pytest.mark.parametrize("architecture", CONFIGS)
def test_no_sound_model_is_refused(tmp_path: Path, architecture: str) -> None:
    assert inspect(write(tmp_path, architecture)).refusals == []


def test_opened_reported_and_closed(tmp_path: Path) -> None:
    assert module.inspect(write(tmp_path)).model == inspect(tmp_path).model


def test_weights_without_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors_of({"a": np.zeros((2, 3))}))
    report = inspect(path)
    assert report.refusals
    assert (report.num_parameters, report.nbytes, report.num_files) == (6, 24, 1)


def test_numbers_and_hashes(tmp_path: Path) -> None:
    def damage(tensors: dict) -> None:  # type: ignore[type-arg]
        tensors["model.layers.0.mlp.up_proj.weight"][:] = np.nan

    write(tmp_path, tensors=damage)
    report = inspect(tmp_path)
    with open_checkpoint(tmp_path) as checkpoint:
        report.add_numbers(scan(checkpoint.tensors, checkpoint.read))
    assert report.findings[0].id == "weights.not-finite"
    subject = open_subject(tmp_path)
    done: list[int] = []
    report.hashes = hash_files(subject, lambda _: None, done.append)
    assert sum(done) == sum((tmp_path / name).stat().st_size for name in subject.names)
    assert report.hashes["config.json"] == compute_sha256(tmp_path / "config.json")
    document = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert document["tensors"]["model.layers.0.mlp.up_proj.weight"]["mean"] is None
    assert document["tensors"]["model.norm.weight"]["num_not_finite"] == 0
    assert set(document["sha256"]) == set(subject.names)
