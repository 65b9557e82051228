"""onnxruntime-genai, static batches, on a model made by its own builder (int4, accuracy level 4).

Install: python -m venv .peers/ort && .peers/ort/bin/pip install torch==2.13.0 \
             onnxruntime-genai onnx onnx_ir transformers
Build:   .peers/ort/bin/python -m onnxruntime_genai.models.builder -m HF_DIR -o OUT_DIR -p int4 -e cpu \
             --extra_options int4_accuracy_level=4 int4_block_size=32
Threads: `intra_op_num_threads` under session_options of OUT_DIR/genai_config.json; its default is all cores.
"""

from __future__ import annotations

import argparse

import numpy as np
import onnxruntime_genai as og
from workload import Engine, run_peer


class OnnxRuntime(Engine):
    """One generator per call: it has no batch that requests could join."""

    name = "onnxruntime-genai"
    version = og.__version__
    precision = "int4"

    def __init__(self, args: argparse.Namespace) -> None:
        self.model = og.Model(og.Config(args.model))

    def generate(self, prompts: list[list[int]], new_tokens: int) -> None:
        """The prompts as one matrix, then a step for each token."""
        length = len(prompts[0]) + new_tokens
        params = og.GeneratorParams(self.model)
        params.set_search_options(max_length=length, min_length=length, batch_size=len(prompts), do_sample=False)
        generator = og.Generator(self.model, params)
        generator.append_tokens(np.array(prompts, dtype=np.int32))
        for _ in range(new_tokens):
            generator.generate_next_token()


if __name__ == "__main__":
    run_peer(__doc__, OnnxRuntime)
