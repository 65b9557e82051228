"""How many bytes a row of each storage scheme takes. One table for both formats, nothing computed here.

A scheme stores `block_size` neighbouring elements of a row in `block_bytes` bytes; dense types are blocks of one.
GGUF numbers its schemes (`gguf_id`), safetensors writes dtype names. A scheme that no code can dequantize is listed
all the same: its tensors can be measured and skipped, and are refused by name when one is read.
Groups are ours, no file has them: a float32 scale, a zero point of one byte, then 32 or 128 integers. The weights of
GPTQ, AWQ and compressed-tensors become such rows when they are read (`hf.quantized`). NVFP4_SCALED is ours too: before
each NVFP4 block the float32 scale of its tensor.
Source: the type tables of ggml and of the safetensors format.
"""

from __future__ import annotations

from dataclasses import dataclass

from pelton.errors import CheckpointError, nearest


@dataclass(frozen=True, slots=True)
class Scheme:
    """One storage scheme. `gguf_id` is None where GGUF has no such type."""

    name: str
    block_size: int  # elements
    block_bytes: int
    gguf_id: int | None = None


_ALL = (
    Scheme("F32", 1, 4, 0),
    Scheme("F16", 1, 2, 1),
    Scheme("BF16", 1, 2, 30),
    Scheme("Q4_0", 32, 18, 2),
    Scheme("Q4_1", 32, 20, 3),
    Scheme("Q5_0", 32, 22, 6),
    Scheme("Q5_1", 32, 24, 7),
    Scheme("Q8_0", 32, 34, 8),
    Scheme("Q8_1", 32, 36, 9),
    Scheme("Q2_K", 256, 84, 10),
    Scheme("Q3_K", 256, 110, 11),
    Scheme("Q4_K", 256, 144, 12),
    Scheme("Q5_K", 256, 176, 13),
    Scheme("Q6_K", 256, 210, 14),
    Scheme("Q8_K", 256, 292, 15),
    Scheme("IQ2_XXS", 256, 66, 16),
    Scheme("IQ2_XS", 256, 74, 17),
    Scheme("IQ3_XXS", 256, 98, 18),
    Scheme("IQ1_S", 256, 50, 19),
    Scheme("IQ4_NL", 32, 18, 20),
    Scheme("IQ3_S", 256, 110, 21),
    Scheme("IQ2_S", 256, 82, 22),
    Scheme("IQ4_XS", 256, 136, 23),
    Scheme("I8", 1, 1, 24),
    Scheme("I16", 1, 2, 25),
    Scheme("I32", 1, 4, 26),
    Scheme("I64", 1, 8, 27),
    Scheme("F64", 1, 8, 28),
    Scheme("IQ1_M", 256, 56, 29),
    Scheme("TQ1_0", 256, 54, 34),
    Scheme("TQ2_0", 256, 66, 35),
    Scheme("MXFP4", 32, 17, 39),
    Scheme("NVFP4", 64, 36, 40),
    Scheme("Q1_0", 128, 18, 41),
    Scheme("Q2_0", 64, 18, 42),
    Scheme("NVFP4_SCALED", 64, 4 + 36),
    Scheme("INT4_G32", 32, 4 + 1 + 16),
    Scheme("INT4_G128", 128, 4 + 1 + 64),
    Scheme("INT8_G32", 32, 4 + 1 + 32),
    Scheme("INT8_G128", 128, 4 + 1 + 128),
    Scheme("BOOL", 1, 1),
    Scheme("U8", 1, 1),
    Scheme("U16", 1, 2),
    Scheme("U32", 1, 4),
    Scheme("U64", 1, 8),
    Scheme("C64", 1, 8),
    Scheme("F8_E4M3", 1, 1),
    Scheme("F8_E5M2", 1, 1),
    Scheme("F8_E8M0", 1, 1),
    Scheme("F8_E4M3FNUZ", 1, 1),
    Scheme("F8_E5M2FNUZ", 1, 1),
    Scheme("F6_E2M3", 4, 3),
    Scheme("F6_E3M2", 4, 3),
    Scheme("F4", 2, 1),
)

SCHEMES = {scheme.name: scheme for scheme in _ALL}
BY_GGUF_ID = {scheme.gguf_id: scheme for scheme in _ALL if scheme.gguf_id is not None}

# The schemes that kernels compute with.
DENSE = frozenset({"F32", "F16", "BF16"})
CODED = frozenset({"IQ4_NL", "IQ4_XS", "MXFP4"})
GROUPED = frozenset({"INT4_G32", "INT4_G128", "INT8_G32", "INT8_G128"})
QUANTIZED = CODED | GROUPED | {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}
USABLE = DENSE | QUANTIZED

# The schemes that no kernel knows: loading makes usable ones of them (`loading.expand`). The last two hold
# intermediate results; they are read where a file has them all the same, and never written.
READ_ONLY = frozenset({"Q8_1", "Q8_K"})
EXPANDED = READ_ONLY | {
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
    *("TQ1_0", "TQ2_0", "Q1_0", "Q2_0", "NVFP4", "NVFP4_SCALED", "F64"),
}
READABLE = USABLE | EXPANDED  # a model's weights
INTEGERS = frozenset({"I8", "I16", "I32", "I64"})  # numbers, and yet no weights: without a scale they mean nothing
SMALL_FLOATS = frozenset({"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4"})
NUMERIC = READABLE | INTEGERS | SMALL_FLOATS  # `dequantize` knows their numbers; small floats too want a scale


def get_scheme(name: str) -> Scheme:
    """The scheme called `name`; raises CheckpointError with the nearest known name."""
    scheme = SCHEMES.get(name)
    if scheme is None:
        raise CheckpointError(f"{name!r} is not a known storage scheme. {nearest(name, SCHEMES)}")
    return scheme


def row_bytes(scheme: str, k: int) -> int:
    """Bytes of one row of `k` elements. Raises CheckpointError where `k` does not fill whole blocks."""
    known = get_scheme(scheme)
    num_blocks, rest = divmod(k, known.block_size)
    if rest:
        raise CheckpointError(
            f"A row of {k} elements cannot be stored as {scheme}: it is not a multiple of {known.block_size}, "
            f"the size of a {scheme} block."
        )
    return num_blocks * known.block_bytes
