"""Hugging Face transformers, model.generate: the plain forward pass that a serving engine is measured against.

Install: python -m venv .peers/hf && .peers/hf/bin/pip install torch==2.13.0 transformers accelerate
The model is a Hugging Face directory or repo id; weights and activations are bfloat16.
"""

from __future__ import annotations

import argparse

import torch
import transformers
from workload import Engine, run_peer


class Transformers(Engine):
    """Static batches without padding, since all prompts are equally long."""

    name = "transformers"
    version = transformers.__version__
    precision = "bfloat16"

    def __init__(self, args: argparse.Namespace) -> None:
        torch.set_num_threads(args.threads)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16)
        self.cache: object | None = None

    @torch.inference_mode()
    def generate(self, prompts: list[list[int]], new_tokens: int) -> None:
        """One call of the library's own loop."""
        ids = torch.tensor(prompts)
        self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
        )

    @torch.inference_mode()
    def write_logits(self, token_ids: list[int], position: int, window: int, file: str) -> tuple[int, int]:
        """With the keys and values of the pieces before."""
        if position == 0:
            self.cache = None
        out = self.model(torch.tensor([token_ids]), past_key_values=self.cache, use_cache=True)
        self.cache = out.past_key_values
        logits = out.logits[0].float().numpy()
        logits.tofile(file)
        return logits.shape


if __name__ == "__main__":
    run_peer(__doc__, Transformers)
