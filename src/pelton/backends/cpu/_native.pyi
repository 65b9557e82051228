"""The native module: kernels for tests, and the program that backends/cpu builds and runs. Source: csrc/python/."""

from collections.abc import Sequence
from enum import Enum
from typing import final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
View = tuple[int, int]  # offset in bytes, floats from row to row

class ActivationKind(Enum):
    Int8 = 0
    Int8Pair = 1
    BFloat16 = 2
    Float32 = 3

class KvDtype(Enum):
    bfloat16 = 0
    float32 = 1
    int8 = 2

class ArenaEdge(Enum):
    Nowhere = 0
    Begin = 1
    End = 2

@final
class Matrix: ...

@final
class Vector: ...

@final
class RotaryTable: ...

@final
class KvLayout:
    def __init__(
        self, block_size: int, num_kv_heads: int, k_dim: int, v_dim: int, dtype: KvDtype, layer_offset_bytes: int, /
    ) -> None: ...
    @property
    def layer_bytes(self) -> int: ...

@final
class ExpertsTask:
    def __init__(
        self,
        *,
        h_kind: ActivationKind,
        inner_kind: ActivationKind,
        hidden_size: int,
        inner_size: int,
        max_chosen: int,
        max_tokens: int,
        function: str,
        is_interleaved: bool,
    ) -> None: ...
    def memory_bytes(self) -> int: ...
    def own_bytes(self, num_experts: int) -> int: ...

@final
class Program:
    def __init__(
        self,
        *,
        num_threads: int,
        max_num_tokens: int,
        max_num_requests: int,
        max_num_logits_rows: int,
        block_size: int,
        max_blocks_per_request: int,
        vocab_size: int,
        token_rows: int,
        position_rows: int,
        buffer_bytes: int,
        packed_bytes: int,
        scratch_bytes: int,
        kv_block_bytes: int,
    ) -> None: ...
    def place_matrix(self, scheme: str, n: int, k: int, exact: bool, /) -> Matrix: ...
    def pack_strips(self, matrix: Matrix, rows: Bytes, up_rows: Bytes | None, first: int, last: int) -> None: ...
    def buffers(self) -> Bytes: ...
    def packed(self) -> Bytes: ...
    def add_vector(self, values: Float32, /) -> Vector: ...
    def add_rotary_table(self, inv_freq: Sequence[float], attention_factor: float, /) -> RotaryTable: ...
    def set_logits(self, view: View, /) -> None: ...
    def bind_kv(self, memory: Bytes, num_blocks: int, /) -> None: ...
    def add_barrier(self) -> None: ...
    def add_embedding(self, by_position: bool, table: Bytes, scheme: str, size: int, y: View, /) -> None: ...
    def add_rms_norm(
        self, is_logits: bool, x: View, y: View, weight: Vector | None, num_heads: int, size: int, eps: float, /
    ) -> None: ...
    def add_layer_norm(
        self, is_logits: bool, x: View, y: View, weight: Vector, bias: Vector | None, size: int, eps: float, /
    ) -> None: ...
    def add_rotary(self, x: View, y: View, table: RotaryTable, num_heads: int, head_dim: int, /) -> None: ...
    def add_activation(self, is_logits: bool, x: View, y: View, size: int, function: str, /) -> None: ...
    def add_gated(self, is_logits: bool, x: View, y: View, size: int, function: str, /) -> None: ...
    def add_add(self, is_logits: bool, x: View, other: View, y: View, size: int, /) -> None: ...
    def add_scale(self, is_logits: bool, x: View, y: View, size: int, factor: float, /) -> None: ...
    def add_softcap(self, is_logits: bool, x: View, y: View, size: int, cap: float, /) -> None: ...
    def add_quantize(self, is_logits: bool, x: View, kind: ActivationKind, size: int, activation: int, /) -> None: ...
    def add_norm_quantize(
        self,
        is_logits: bool,
        x: View,
        weight: Vector | None,
        size: int,
        eps: float,
        kind: ActivationKind,
        activation: int,
        /,
    ) -> None: ...
    def add_linear(
        self,
        is_logits: bool,
        parts: Sequence[tuple[Matrix, ActivationKind, int]],
        bias: Vector | None,
        residual: View | None,
        y: View,
    ) -> None: ...
    def add_linear_gated(
        self,
        is_logits: bool,
        part: tuple[Matrix, ActivationKind, int],
        bias: Vector | None,
        function: str,
        kind: ActivationKind,
        size: int,
        activation: int,
    ) -> None: ...
    def add_refine(
        self, is_logits: bool, matrices: Sequence[Matrix], x: View, y: View, max_rows: int, memory: int, /
    ) -> None: ...
    def add_select_rows(self, x: View, y: View, size: int, /) -> None: ...
    def add_kv_write(
        self, layout: KvLayout, k: View, v: View, k_dim: int, v_dim: int, inverse_balance: Vector | None, /
    ) -> None: ...
    def add_attention(
        self,
        layout: KvLayout,
        q: View,
        y: View,
        partials: int,
        prefixes: int,
        max_context: int,
        num_heads: int,
        k_dim: int,
        v_dim: int,
        scale: float,
        window: int | None,
        softcap: float,
        sinks: Vector | None,
        key_balance: Vector | None,
    ) -> None: ...
    def add_route(
        self, is_logits: bool, x: View, y: View, num_experts: int, num_chosen: int, normalised: bool, factor: float, /
    ) -> None: ...
    def add_sigmoid_scale(self, is_logits: bool, x: View, gate: View, y: View, size: int, /) -> None: ...
    def add_experts(
        self,
        task: ExpertsTask,
        h: int,
        weights: View,
        y: View,
        memory: int,
        own_memory: int,
        experts: Sequence[tuple[Sequence[Matrix], Matrix]],
        /,
    ) -> None: ...
    def start_profile(self) -> None: ...
    def op_ns(self) -> list[int]: ...
    def op_wall_ns(self) -> list[int]: ...
    def run(
        self,
        token_ids: Int32,
        positions: Int32,
        query_start: Int32,
        context_len: Int32,
        block_table: Int32,
        logits_index: Int32,
        sampling: tuple[object, ...],
        out_ids: Int32,
        out_logprob: Float32,
        out_top_ids: Int32,
        out_top_logprobs: Float32,
        out_logits: Float32 | None,
    ) -> None: ...

MAX_CHOSEN_EXPERTS: int

def detected_isa() -> str: ...
def isa() -> str: ...
def set_isa(name: str, /) -> None: ...
def set_arena_edge(edge: ArenaEdge) -> None: ...
def checksum(data: Bytes, /) -> int: ...
def activation_kind(scheme: str, exact: bool, is_wide: bool) -> ActivationKind: ...
def activation_size_bytes(kind: ActivationKind, max_rows: int, k: int) -> int: ...
def packed_matrix_bytes(scheme: str, n: int, k: int, exact: bool) -> int: ...
def pack(scheme: str, rows: Bytes, k: int) -> Bytes: ...
def packed_size_bytes(scheme: str, n: int, k: int) -> int: ...
def linear_scratch_bytes(max_rows: int) -> int: ...
def refine_bytes(num_outputs: int, num_parts: int, row_size: int, max_rows: int) -> int: ...
def refine_scratch_bytes(row_size: int, max_rows: int) -> int: ...
def linear_gated_scratch_bytes(max_rows: int) -> int: ...
def attention_scratch_bytes(k_dim: int, v_dim: int) -> int: ...
def attention_partial_bytes(v_dim: int, max_context: int, num_threads: int) -> int: ...
def attention_prefix_bytes(num_heads: int, v_dim: int, max_num_requests: int) -> int: ...
def prefix_groups(
    positions: Int32, query_start: Int32, block_table: Int32, block_size: int
) -> list[tuple[int, int, list[int]]]: ...
def padded_dims(dims: int) -> int: ...
def dequantize(scheme: str, rows: Bytes, k: int) -> Float32: ...
def linear(
    scheme: str,
    rows: Bytes,
    n: int,
    k: int,
    x_MK: Float32,
    bias_N: Float32 | None = None,
    exact: bool = False,
    num_threads: int = 1,
    *,
    is_wide: bool = False,
    out: Float32 | None = None,
) -> Float32: ...
def linear_bench(
    scheme: str,
    rows: Bytes,
    k: int,
    x_MK: Float32,
    *,
    num_copies: int,
    num_repeats: int = 5,
    exact: bool = False,
    num_threads: int = 1,
    is_wide: bool = False,
) -> list[float]: ...
def measure_clock_hz(seconds: float) -> float: ...
def peak_instruction(kind: str) -> str: ...
def measure_peak(kind: str, num_threads: int, seconds: float) -> float: ...
def measure_bandwidth(
    size_bytes: int, wants_huge_pages: bool, thread_counts: Sequence[int], seconds: float
) -> tuple[list[float], float]: ...
def measure_barrier_s(num_threads: int, seconds: float) -> float: ...
