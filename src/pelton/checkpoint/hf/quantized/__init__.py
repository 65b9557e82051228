"""Quantized linears of Hugging Face directories, read as rows of one scheme: the rest of the program sees no others."""

from pelton.checkpoint.hf.quantized.linear import QuantizedLinear, find_quantized
from pelton.checkpoint.hf.quantized.settings import Quantization, read_quantization

__all__ = ["Quantization", "QuantizedLinear", "find_quantized", "read_quantization"]
