"""Every family's exported graph gives the logits of our reference in onnxruntime: at once, with a past, and padded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.models.architectures import CASES, make_model
from tests.models.test_parity import PROMPT, load

from pelton.backends.reference import ReferenceBackend
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.conversion.onnx_export import export_onnx
from pelton.runner.direct_step import logits_of

pytestmark = pytest.mark.cpu


class Session:
    """An exported model that keeps its past."""

    def __init__(self, path: Path) -> None:
        self.session = onnxruntime.InferenceSession(path / "model.onnx", providers=["CPUExecutionProvider"])
        self.past: dict[str, np.ndarray] = {}

    def run(self, ids: np.ndarray, mask: np.ndarray, positions: np.ndarray) -> np.ndarray:
        feeds = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        for each in self.session.get_inputs():
            if each.name.startswith("past"):
                heads, dim = each.shape[1], each.shape[3]
                feeds[each.name] = self.past.get(each.name, np.zeros((len(ids), heads, 0, dim), np.float32))
        names = [each.name for each in self.session.get_outputs()]
        outputs = dict(zip(names, self.session.run(names, feeds), strict=True))
        self.past = {
            name.replace("present", "past_key_values"): array
            for name, array in outputs.items()
            if name.startswith("present")
        }
        return outputs["logits"]

    def read(self, tokens: list[int], chunk: int) -> np.ndarray:
        """The logits of one text, so many tokens at a time."""
        self.past, pieces = {}, []
        for begin in range(0, len(tokens), chunk):
            ids = np.array([tokens[begin : begin + chunk]])
            end = begin + ids.shape[1]
            pieces.append(self.run(ids, np.ones((1, end), np.int64), np.arange(begin, end)[None])[0])
        return np.concatenate(pieces)


@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    make_model(name, tmp_path)
    expected = logits_of(load(tmp_path, ReferenceBackend("float32")), PROMPT, [2, 1], chunk=64, max_blocks=2)
    (tmp_path / "onnx").mkdir()
    with open_checkpoint(tmp_path) as checkpoint:
        export_onnx(checkpoint, tmp_path / "onnx")
        longest = checkpoint.spec.max_position
    session = Session(tmp_path / "onnx")
    if "dynamic" in name or "longrope" in name:
        assert longest > len(PROMPT)  # other angles: those of the longest text; compared below with themselves
    else:
        actual = session.read(PROMPT, len(PROMPT))
        np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5 * float(expected.std()))
    whole, pieces = session.read(PROMPT, len(PROMPT)), session.read(PROMPT, 1)
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=2e-5 * float(whole.std()))


def test_the_checker_accepts_it_and_weights_are_there_once(tmp_path: Path) -> None:
    make_model("qwen2", tmp_path)  # tied
    (tmp_path / "onnx").mkdir()
    counted: list[int] = []
    with open_checkpoint(tmp_path) as checkpoint:
        export_onnx(checkpoint, tmp_path / "onnx", on_bytes=counted.append)
        stored = sum(4 * int(np.prod(info.shape)) for info in checkpoint.tensors.values())
    onnx.checker.check_model(str(tmp_path / "onnx" / "model.onnx"), full_check=True)
    assert sum(counted) == stored
    graph = onnx.load(tmp_path / "onnx" / "model.onnx", load_external_data=False).graph
    assert {node.domain for node in graph.node} == {""}
    names = [tensor.name for tensor in graph.initializer]
    assert len(names) == len(set(names))


def test_texts_of_other_lengths_share_a_batch(tmp_path: Path) -> None:
    make_model("gemma3", tmp_path)
    (tmp_path / "onnx").mkdir()
    with open_checkpoint(tmp_path) as checkpoint:
        export_onnx(checkpoint, tmp_path / "onnx")
    session = Session(tmp_path / "onnx")
    short, long = PROMPT[:9], PROMPT[:14]
    alone = [session.read(text, 64) for text in (short, long)]
    session.past = {}
    ids = np.array([[0] * 5 + short, long])
    mask = np.array([[0] * 5 + [1] * 9, [1] * 14])
    positions = np.array([[0] * 5 + list(range(9)), list(range(14))])
    together = session.run(ids, mask, positions)
    np.testing.assert_allclose(together[0, 5:], alone[0], rtol=0, atol=1e-4 * float(alone[0].std()))
    np.testing.assert_allclose(together[1], alone[1], rtol=0, atol=1e-4 * float(alone[1].std()))
