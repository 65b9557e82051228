"""Random weights in every storage scheme.

Dense ones hold the given numbers. Blocks hold random bits, so that every pattern occurs, under scales of a sensible
size: what they mean is whatever the reference makes of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tests.steps import dense_weight

from pelton.checkpoint.scheme import GROUPED, QUANTIZED, get_scheme
from pelton.checkpoint.weight import Tensor, Weight

# Where the float16 scales of a block stand, in bytes. Layouts: ggml's block structs. Groups begin with a float32 scale,
# MXFP4 with an exponent.
SCALE_OFFSETS = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "MXFP4": (),
    **dict.fromkeys(sorted(GROUPED), ()),
}
assert set(SCALE_OFFSETS) == QUANTIZED, "every quantized scheme needs the places of its scales"
SCHEMES = ("F32", "F16", "BF16", *SCALE_OFFSETS)


def fits(scheme: str, array: npt.NDArray[Any]) -> bool:
    """Whether rows of `array` are whole blocks."""
    return array.shape[-1] % get_scheme(scheme).block_size == 0


def random_weight(name: str, array: npt.NDArray[Any], scheme: str) -> Weight:
    """A weight of the shape of `array`; dense schemes hold its numbers, rounded."""
    if scheme == "F32":
        return dense_weight(name, array)
    if scheme == "F16":
        payload = array.astype(np.float16).view(np.uint8)
    elif scheme == "BF16":
        payload = (array.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    else:
        payload = random_blocks(array.shape, scheme)
    return Weight(name, (Tensor(name, array.shape, scheme, payload.reshape(len(array), -1)),))


def random_blocks(shape: tuple[int, ...], scheme: str) -> npt.NDArray[np.uint8]:
    """Rows of blocks with random bits and scales between 2^-9 and 2^-8."""
    known = get_scheme(scheme)
    rng = np.random.default_rng(sum(map(ord, scheme)))
    num_blocks = int(np.prod(shape)) // known.block_size
    blocks = rng.integers(0, 256, (num_blocks, known.block_bytes), dtype=np.uint8)
    set_scales(scheme, blocks, rng.uniform(2.0**-9, 2.0**-8, (num_blocks, 1)))
    if scheme in GROUPED:  # zero points in the middle: far ones make all weights alike, and outputs differences
        middle = 1 << int(scheme[3]) - 1
        blocks[:, 4] = rng.integers(middle - middle // 4, middle + middle // 4 + 1, num_blocks)
    return blocks


def set_scales(scheme: str, blocks: npt.NDArray[np.uint8], scales: npt.NDArray[np.float64]) -> None:
    """Write `scales` [N, 1] into blocks [N, block_bytes], rounded as the scheme stores them."""
    for offset in SCALE_OFFSETS[scheme]:
        blocks[:, offset : offset + 2] = scales.astype(np.float16).view(np.uint8)
    if scheme in GROUPED:
        blocks[:, :4] = scales.astype(np.float32).view(np.uint8)
    if scheme == "MXFP4":
        blocks[:, :1] = 128 + np.floor(np.log2(np.abs(scales)))
