"""The quantized linears among the tensors of a directory: several tensors each, seen as one matrix "x.weight".

Invariant: a tensor that belongs to a linear is used, and one that does not is left where it was, to be placed or
refused like any other. Scales, zero points and groups are read and checked when a linear is read; its integers are put
in order when somebody asks for the rows, so that one matrix at a time is in memory twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pelton.checkpoint.contract import TensorInfo
from pelton.checkpoint.hf.quantized import awq, bitsandbytes, compressed, fp8, gptq, mxfp4
from pelton.checkpoint.hf.quantized.arrays import Bytes, bytes_of
from pelton.checkpoint.hf.quantized.group_rows import Groups, group_scheme, make_rows
from pelton.checkpoint.hf.quantized.settings import Quantization
from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.weight import Conversion, Tensor
from pelton.errors import CheckpointError

Parts = Mapping[str, PlacedTensor]
Dtypes = Mapping[str, tuple[str, ...]]
Shape = tuple[int, int]
MakeGroups = Callable[[Parts, Quantization, Shape, int], Groups]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How one form stores a linear. `mark` is the tensor by which it is known; dtypes are those it may have."""

    mark: str
    required: Dtypes
    find_shape: Callable[[Parts, Quantization], Shape]
    optional: Dtypes
    make_groups: MakeGroups | None = None  # None: rows of MXFP4, or float32 of FP8
    expected_shapes: Callable[[Shape, int, int], dict[str, tuple[int, ...]]] | None = None


_FORMS = {
    "gptq": _Form(
        mark=gptq.MARK,
        required=gptq.REQUIRED,
        optional=gptq.OPTIONAL,
        find_shape=gptq.find_shape,
        make_groups=gptq.make_groups,
        expected_shapes=gptq.expected_shapes,
    ),
    "awq": _Form(
        mark=awq.MARK,
        required=awq.REQUIRED,
        optional=awq.OPTIONAL,
        find_shape=awq.find_shape,
        make_groups=awq.make_groups,
        expected_shapes=awq.expected_shapes,
    ),
    "packed": _Form(
        mark=compressed.PACKED_MARK,
        required=compressed.PACKED_REQUIRED,
        optional=compressed.PACKED_OPTIONAL,
        find_shape=compressed.find_packed_shape,
        make_groups=compressed.make_packed_groups,
    ),
    "integers": _Form(
        mark=compressed.INTEGERS_MARK,
        required=compressed.INTEGERS_REQUIRED,
        optional=compressed.INTEGERS_OPTIONAL,
        find_shape=compressed.find_integers_shape,
        make_groups=compressed.make_integer_groups,
    ),
    "mxfp4": _Form(
        mark=mxfp4.MARK,
        required=mxfp4.REQUIRED,
        optional={},
        find_shape=mxfp4.find_shape,
        expected_shapes=lambda shape, _, __: {"weight_scale": (shape[0], shape[1] // 32)},
    ),
    "bnb4": _Form(
        mark=bitsandbytes.MARK,
        required=bitsandbytes.REQUIRED_4,
        optional=bitsandbytes.OPTIONAL_4,
        find_shape=bitsandbytes.find_shape_4,
    ),
    "bnb8": _Form(
        mark=bitsandbytes.MARK,
        required=bitsandbytes.REQUIRED_8,
        optional=bitsandbytes.OPTIONAL_8,
        find_shape=bitsandbytes.find_shape_8,
    ),
    "fp8": _Form(mark=fp8.MARK, required=fp8.REQUIRED, optional=fp8.OPTIONAL, find_shape=fp8.find_shape),
}


@dataclass(frozen=True, slots=True)
class QuantizedLinear:
    """One matrix, under the name that it has where it is not quantized."""

    info: TensorInfo
    parts: Parts
    quantization: Quantization

    @property
    def group_size(self) -> int:
        """Neighbouring inputs that share a scale."""
        return self.quantization.group_size or self.info.shape[1]

    def read(self) -> Tensor:
        """The matrix in a scheme of its own. Raises CheckpointError where its tensors cannot be read."""
        sources = tuple(bytes_of(part) for part in self.parts.values())
        recipe = repr(replace(self.quantization, source=""))
        make_groups = _FORMS[self.quantization.form].make_groups
        if self.info.scheme == "F32":
            return self._tensor(Conversion(sources, recipe, self._find_floats()))
        if make_groups is None:
            codes, exponents = mxfp4.read_codes_and_exponents(self.parts)
            return self._tensor(Conversion(sources, recipe, partial(mxfp4.make_rows, codes, exponents)))
        shape = self.info.shape[0], self.info.shape[1]
        groups = make_groups(self.parts, self.quantization, shape, self.group_size)
        if not np.isfinite(groups.scales_NG).all():
            raise CheckpointError(f"{self.info.name}: has a scale that is not finite. It is damaged; fetch it again.")
        return self._tensor(Conversion(sources, recipe, partial(make_rows, groups, self.info.scheme)))

    def _find_floats(self) -> Callable[[], Bytes]:
        """What makes the rows of forms that no scheme with kernels holds."""
        shape = self.info.shape[0], self.info.shape[1]
        if self.quantization.form == "bnb4":
            return partial(bitsandbytes.make_rows_4, bitsandbytes.read_codes(self.parts, shape))
        if self.quantization.form == "bnb8":
            return partial(bitsandbytes.make_rows_8, *bitsandbytes.read_integers(self.parts, shape))
        scales = fp8.read_scales(self.parts, self.quantization, shape)
        return partial(fp8.make_rows, fp8.read_bytes(self.parts, shape), scales, self.quantization.block)

    def _tensor(self, rows: Conversion) -> Tensor:
        return Tensor(self.info.name, self.info.shape, self.info.scheme, rows)


def find_quantized(placed: Mapping[str, PlacedTensor], quantization: Quantization) -> dict[str, QuantizedLinear]:
    """Every quantized linear of the directory by the name of its matrix. Raises CheckpointError for broken ones."""
    form = _FORMS[quantization.form]
    linears: dict[str, QuantizedLinear] = {}
    for name, tensor in placed.items():
        prefix, _, last = name.rpartition(".")
        if last != form.mark or tensor.info.scheme not in form.required[form.mark]:
            continue
        linear = _make_linear(prefix, placed, form, quantization)
        matrix = linear.info.name
        if matrix in placed and matrix != name:
            raise CheckpointError(f"{tensor.file.path}: holds {matrix} beside {name}; only one can be the weight.")
        linears[matrix] = linear
    if not linears:
        raise CheckpointError(
            f"{quantization.source}: says that the weights are quantized, and no tensor is called '*.{form.mark}' with "
            f"dtype {' or '.join(form.required[form.mark])}. Remove quantization_config if they are not."
        )
    return linears


def _make_linear(
    prefix: str, placed: Mapping[str, PlacedTensor], form: _Form, quantization: Quantization
) -> QuantizedLinear:
    parts: dict[str, PlacedTensor] = {}
    for part, dtypes in {**form.required, **form.optional}.items():
        tensor = placed.get(f"{prefix}.{part}")
        if tensor is None:
            if part in form.required:
                raise CheckpointError(f"{prefix}: has {form.mark} and no {part}. The checkpoint is incomplete.")
            continue
        if tensor.info.scheme not in dtypes:
            raise CheckpointError(
                f"{prefix}.{part}: has dtype {tensor.info.scheme}, expected {' or '.join(dtypes)} for a linear that is "
                "quantized as the configuration says."
            )
        parts[part] = tensor
    stored = parts[form.mark].info
    if len(stored.shape) != 2 or 0 in stored.shape:
        raise CheckpointError(f"{stored.name}: has shape {list(stored.shape)}, expected a matrix.")
    shape = form.find_shape(parts, quantization)
    group_size = quantization.group_size or shape[1]
    if form.expected_shapes is not None:
        expected = form.expected_shapes(shape, -(-shape[1] // group_size), quantization.bits)
        _check_shapes(prefix, parts, expected, quantization)
    bits = 8 if quantization.form == "integers" else quantization.bits
    scheme = "MXFP4" if form.make_groups is None else group_scheme(bits, shape[1], group_size)
    if quantization.form in ("fp8", "bnb4", "bnb8"):
        scheme = "F32"
    elif scheme is None or shape[1] % 32:
        raise CheckpointError(
            f"{prefix}: has {shape[1]} inputs, which are not a multiple of 32. Use the original weights."
        )
    nbytes = sum(part.info.nbytes for part in parts.values())
    return QuantizedLinear(TensorInfo(f"{prefix}.weight", shape, scheme, nbytes), parts, quantization)


def _check_shapes(prefix: str, parts: Parts, expected: Mapping[str, tuple[int, ...]], of: Quantization) -> None:
    for part, shape in expected.items():
        if part in parts and parts[part].info.shape != shape:
            raise CheckpointError(
                f"{prefix}.{part}: has shape {list(parts[part].info.shape)}, expected {list(shape)} with {of.bits} "
                f"bits and group_size {of.group_size or -1}. The configuration and the weights do not fit together."
            )
