"""Quantized weights: whether their scales are there, and whether the configuration's exceptions name anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pelton.checkpoint.contract import TensorInfo
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed
from pelton.inspection.subject import Subject

# By how the name of a quantized tensor ends: one of the endings that its scales may have.
_SCALES: Mapping[str, tuple[str, ...]] = {
    ".qweight": (".scales",),
    ".weight_packed": (".weight_scale",),
    "_blocks": ("_scales",),
}
_FLOAT8 = {"F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}
_FLOAT8_SCALES = (".weight_scale", ".weight_scale_inv", ".scale", ".weight_scale_2")
_CACHE = re.compile(r"\.(k_scale|v_scale|kv_scale|k_proj\.output_scale|v_proj\.output_scale)$")
_LOW = ("IQ1", "IQ2", "IQ3", "Q2_K", "Q3_K", "TQ", "Q1_0", "Q2_0")


def check_quantization(subject: Subject, stored: Iterable[str], tensors: Mapping[str, TensorInfo]) -> list[Finding]:
    """`stored` are the names in the files, before quantized linears are seen as one matrix."""
    names = set(stored)
    findings = []
    lost = find_without_scales(names, tensors)
    if lost:
        findings.append(Finding("quantization.scales", f"{listed(lost)}: no scale is stored."))
    plain = [name for name, info in tensors.items() if info.scheme == "NVFP4"]
    if plain and any(info.scheme == "NVFP4_SCALED" for info in tensors.values()):
        findings.append(Finding("quantization.some-scales", f"{listed(plain)}: no scale, or one of exactly 1."))
    stale = [pattern for pattern in find_exceptions(subject.config) if not _matches(pattern, names)]
    if stale:
        findings.append(Finding("quantization.ignore", f"{listed(stale)}: no tensor has such a name."))
    cache = [name for name in names if _CACHE.search(name)]
    if cache:
        findings.append(Finding("quantization.cache-scales", f"{listed(sorted(cache))}."))
    low = [
        f"{name} ({tensors[name].scheme})"
        for name in ("token_embd.weight", "output.weight")
        if name in tensors and tensors[name].scheme.startswith(_LOW)
    ]
    if low:
        findings.append(Finding("quantization.low-head", f"{listed(low)}."))
    return findings


def find_without_scales(names: set[str], tensors: Mapping[str, TensorInfo]) -> list[str]:
    """Tensors that need scales which are in no file."""
    lost = []
    for name in sorted(names):
        for ending, scales in _SCALES.items():
            stem = name.removesuffix(ending)
            if stem != name and not any(stem + scale in names for scale in scales):
                lost.append(name)
        info = tensors.get(name)
        if info is not None and info.scheme in _FLOAT8 and name.endswith(".weight"):
            stem = name.removesuffix(".weight")
            if not any(stem + scale in names for scale in _FLOAT8_SCALES):
                lost.append(name)
    return lost


def find_exceptions(config: Mapping[str, Any]) -> list[str]:
    """Names and patterns of modules that the quantization leaves alone."""
    quantization = config.get("quantization_config")
    if not isinstance(quantization, Mapping):
        return []
    found = []
    for field in ("ignore", "modules_to_not_convert", "llm_int8_skip_modules"):
        value = quantization.get(field)
        found += [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    return found


def _matches(pattern: str, names: Iterable[str]) -> bool:
    """As writers mean it: "re:" and an expression from the beginning, or a part of a name.

    The expression is of a stranger, so only those without nesting of repetitions are tried; others count as matching.
    """
    if not pattern.startswith("re:"):
        return any(pattern in name for name in names)
    expression = pattern.removeprefix("re:")
    if len(expression) > 200 or re.search(r"[*+}?]\)*[*+{]", expression):
        return True
    try:
        compiled = re.compile(expression)
    except re.error:
        return False
    return any(compiled.match(name.removesuffix(".weight").removesuffix(".bias")) for name in names)
