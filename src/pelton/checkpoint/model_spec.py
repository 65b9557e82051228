"""What a model is, in our words: every number that changes its output, and nothing about how it is run.

Readers make it from a Hugging Face `config.json` or from GGUF metadata; both must give the same value for the same
model. A field of the source that changes numerics is either consumed here or refused, never ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2"]
NormStyle = Literal["rms", "layer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """How rotary frequencies are stretched. Which of the numbers are used depends on `kind`.

    linear    factor                                                (kaiokendev 2023)
    dynamic   factor, original_max_position                         (NTK-aware, emozilla 2023)
    yarn      factor, original_max_position, beta_*, attention_factor, mscale*  (Peng et al. 2023, arXiv:2309.00071)
    llama3    factor, original_max_position, low_freq_factor, high_freq_factor  (Llama 3.1)
    longrope  short_factors, long_factors, original_max_position, attention_factor  (Ding et al. 2024, arXiv:2402.13753)
    """

    kind: Literal["linear", "dynamic", "yarn", "llama3", "longrope"]
    factor: float = 1.0
    original_max_position: int = 0
    attention_factor: float | None = None  # None: the formula of `kind`
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True  # yarn: round the correction range to whole dims
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary position embedding of one layer (Su et al. 2021, arXiv:2104.09864), in the half-split pairing:
    dimension i turns with dimension i + rotary_dim / 2. Readers un-permute checkpoints that pair neighbours."""

    theta: float
    rotary_dim: int  # the first `rotary_dim` of a head's dimensions turn, the others pass
    scaling: RopeScaling | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in the place of an MLP (Shazeer et al. 2017, arXiv:1701.06538)."""

    num_experts: int
    num_experts_per_token: int
    intermediate_size: int  # of one expert
    normalised: bool  # the weights of a token's experts are divided by their sum
    shared_intermediate_size: int = 0  # of the expert that all tokens share, behind a sigmoid; 0: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpec:
    """What may differ from layer to layer."""

    rope: Rope | None  # None: no position information in this layer (NoPE, or learned positions)
    window: int | None = None  # a token sees itself and the window - 1 tokens before it; None: all
    has_experts: bool = False  # in the place of its MLP


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A decoder-only text model. Sizes are counts; `None` means "not there"."""

    architecture: str  # our name of the model file, for example "qwen2"
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_position: int  # tokens the model was made for, scaling included
    layers: tuple[LayerSpec, ...]
    norm_eps: float
    norm_style: NormStyle = "rms"
    activation: Activation = "silu"
    tied_embeddings: bool = False
    qkv_bias: bool = False
    out_bias: bool = False  # attention output projection
    mlp_bias: bool = False
    experts: Experts | None = None  # of the layers that have them
    qk_norm: Literal["head", "full"] | None = None  # normalised per head (Qwen3, Gemma 3) or over all heads (OLMo 2)
    learned_positions: int = 0  # rows of a learned position table (GPT-2); 0: none
    attention_scale: float  # multiplies q.k; usually head_dim ** -0.5
    attention_softcap: float | None = None  # cap * tanh(score / cap)
    logits_softcap: float | None = None
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0  # multiplies what attention and MLP add to the residual (Granite)
    logits_divisor: float = 1.0
    weight_dtype: str = "bfloat16"  # what the checkpoint says its weights are

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    @property
    def qkv_sizes(self) -> tuple[int, int, int]:
        return self.q_size, self.kv_size, self.kv_size
