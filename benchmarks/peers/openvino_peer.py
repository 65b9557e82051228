"""OpenVINO GenAI, continuous batching, on a model exported to its own format.

Install: python -m venv .peers/openvino && .peers/openvino/bin/pip install torch==2.13.0 \
             openvino-genai optimum-intel nncf
Export:  .peers/openvino/bin/optimum-cli export openvino -m HF_DIR --task text-generation-with-past \
             --weight-format int4 OUT_DIR
(HF_DIR of a GGUF file: transformers' from_pretrained(..., gguf_file=...) and save_pretrained)
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import openvino as ov
import openvino_genai as genai
from workload import Engine, run_peer

CACHE_GIB = 2
MAX_STEP_TOKENS = 512


def describe_weights(model: Path) -> str:
    """What the exporter says of the weights: the mode, and the size of its groups."""
    text = model.read_text(encoding="utf-8")
    found = re.search(r'<group_size value="(-?\d+)" />.*?<mode value="(\w+)" />', text, re.DOTALL)
    return f"{found[2]}, groups of {found[1]}" if found else ""


class OpenVino(Engine):
    """Its serving pipeline, with prefix caching off: every leg has prompts of its own anyway."""

    name = "openvino-genai"
    version = genai.__version__

    def __init__(self, args: argparse.Namespace) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size, scheduler.max_num_seqs = CACHE_GIB, 64
        scheduler.max_num_batched_tokens = MAX_STEP_TOKENS
        scheduler.enable_prefix_caching = False
        self.folder = Path(args.model)
        self.precision = describe_weights(self.folder / "openvino_model.xml")
        self.properties = {"INFERENCE_NUM_THREADS": args.threads}
        self.pipeline = genai.ContinuousBatchingPipeline(args.model, scheduler, "CPU", self.properties, {})
        self.request: ov.InferRequest | None = None

    def generate(self, prompts: list[list[int]], new_tokens: int) -> None:
        """All prompts in one call."""
        config = genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = new_tokens, True, False
        ids = [ov.Tensor(np.array([prompt], dtype=np.int64)) for prompt in prompts]
        self.pipeline.generate(ids, [config] * len(prompts))

    def write_logits(self, token_ids: list[int], position: int, window: int, file: str) -> tuple[int, int]:
        """From the same exported model without the pipeline, which shows no logits of prompts."""
        if self.request is None:
            compiled = ov.Core().compile_model(self.folder / "openvino_model.xml", "CPU", self.properties)
            self.request = compiled.create_infer_request()
        if position == 0:
            self.request.reset_state()
        end = position + len(token_ids)
        given = {
            "input_ids": np.array([token_ids], np.int64),
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(position, end, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        logits = self.request.infer(given)["logits"][0].astype(np.float32)
        logits.tofile(file)
        return logits.shape


if __name__ == "__main__":
    run_peer(__doc__, OpenVino)
