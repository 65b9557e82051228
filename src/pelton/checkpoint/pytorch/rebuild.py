"""What the globals of a PyTorch pickle mean here, and the few calls that make a tensor's descriptor of them.

Nothing is imported: a global is a `Call`, a storage type or a dtype of this module. A tensor is where its elements lie
in a storage: first element, shape and strides, all in integers that cannot overflow. Views that repeat elements
(stride 0), that reach outside, or that would be larger than their storage are refused, as are hooks, and tensors that
are sparse, complex, quantized by PyTorch, or of a class of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pelton.checkpoint.fields import short
from pelton.checkpoint.placed_tensor import count_span, is_row_major
from pelton.checkpoint.scheme import SCHEMES

_MAX_AXES = 8
_MAX_INTEGER = 1 << 53
_MAX_KEY_DIGITS = 20  # storages are counted; old versions named them by their addresses
_UNTYPED = ""


class Refused(ValueError):
    """Why a pickle is not accepted, as a sentence that the place begins."""


class Call(Enum):
    """A function of a pickle that has a meaning here."""

    DICT = "collections.OrderedDict"
    TENSOR = "torch._utils._rebuild_tensor_v2"
    TYPED_TENSOR = "torch._utils._rebuild_tensor_v3"
    PARAMETER = "torch._utils._rebuild_parameter"
    SIZE = "torch.Size"


@dataclass(frozen=True, slots=True)
class StorageType:
    """The class of a storage by the scheme of its elements; bytes of any kind where that is empty."""

    scheme: str


@dataclass(frozen=True, slots=True)
class Dtype:
    """A torch dtype by the scheme it is stored in."""

    scheme: str


@dataclass(frozen=True, slots=True)
class Storage:
    """A record of the archive, and how many elements it is said to have."""

    key: str
    scheme: str  # empty: bytes
    numel: int


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor's elements are in its storage; `strides` None where they lie row-major and without gaps."""

    storage: Storage
    scheme: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    first: int  # element

    @property
    def itemsize(self) -> int:
        """Bytes of what strides count."""
        return SCHEMES[self.scheme].block_bytes


Global = Call | StorageType | Dtype

STORAGES: Final = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "LongStorage": "I64",
    "IntStorage": "I32",
    "ShortStorage": "I16",
    "CharStorage": "I8",
    "ByteStorage": "U8",
    "BoolStorage": "BOOL",
}
DTYPES: Final = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float4_e2m1fn_x2": "F4",
}
GLOBALS: Final[dict[str, Global]] = {
    **{each.value: each for each in Call},
    **{f"torch.{name}": StorageType(scheme) for name, scheme in STORAGES.items()},
    "torch.storage.UntypedStorage": StorageType(_UNTYPED),
    "torch.storage._UntypedStorage": StorageType(_UNTYPED),
    **{f"torch.{name}": Dtype(scheme) for name, scheme in DTYPES.items()},
}


def make_storage(reference: Any) -> Storage:
    """From the persistent id ("storage", type, key, device, number of elements). The device has no meaning here."""
    match reference:
        case ("storage", StorageType(scheme), str(key), str(), int(numel)) if not isinstance(numel, bool):
            if not key.isdecimal() or not key.isascii() or len(key) > _MAX_KEY_DIGITS:
                raise Refused(f"names the storage {short(key)}; PyTorch numbers storages.")
            if not 0 <= numel <= _MAX_INTEGER:
                raise Refused(f"claims a storage of {numel} elements.")
            return Storage(key, scheme, numel)
    raise Refused("refers to something outside of the pickle that is not a storage of known type.")


def call(function: Call, arguments: tuple[Any, ...]) -> Any:
    """What the call makes: a descriptor, a tuple of integers or an empty dict. Raises Refused."""
    match function, arguments:
        case Call.DICT, ():
            return {}
        case Call.SIZE, (tuple() as sizes,):
            return sizes
        case Call.PARAMETER, (StoredTensor() as tensor, bool(), dict() as hooks):
            _check_hooks(hooks)
            return tensor
        case Call.TENSOR, (Storage() as storage, first, shape, strides, bool(), dict() as hooks, *state):
            _check_hooks(hooks)
            _check_state(state)
            if storage.scheme == _UNTYPED:
                raise Refused("makes a tensor of a storage without a type.")
            return _make_tensor(storage, storage.scheme, first, shape, strides)
        case (
            Call.TYPED_TENSOR,
            (Storage() as storage, first, shape, strides, bool(), dict() as hooks, Dtype(scheme), *state),
        ):
            _check_hooks(hooks)
            _check_state(state)
            if storage.scheme not in (_UNTYPED, scheme):
                raise Refused(f"makes a tensor of {scheme} from a storage of {storage.scheme}.")
            return _make_tensor(storage, scheme, first, shape, strides)
    raise Refused(f"calls {function.value} with arguments that PyTorch does not give it.")


def _check_hooks(hooks: dict[str, Any]) -> None:
    if hooks:
        raise Refused("holds a tensor with hooks, which are code.")


def _check_state(state: list[Any]) -> None:
    if state not in ([], [None], [{}]):
        raise Refused("holds a tensor with a state of its own (a negated or conjugated view, or attributes).")


def _make_tensor(storage: Storage, scheme: str, first: Any, shape: Any, strides: Any) -> StoredTensor:
    for numbers in ((first,), shape, strides):
        if not isinstance(numbers, tuple) or not all(type(n) is int and 0 <= n <= _MAX_INTEGER for n in numbers):
            raise Refused("holds a tensor whose shape, strides or place are not whole numbers of at least 0.")
    if len(shape) != len(strides) or len(shape) > _MAX_AXES:
        raise Refused(f"holds a tensor of {len(shape)} axes and {len(strides)} strides; {_MAX_AXES} axes are allowed.")
    itemsize = SCHEMES[scheme].block_bytes
    in_storage = storage.numel // itemsize if storage.scheme == _UNTYPED else storage.numel
    what = f"holds a tensor of shape {list(shape)} with strides {list(strides)}"
    if any(length > 1 and stride == 0 for length, stride in zip(shape, strides, strict=True)) and 0 not in shape:
        raise Refused(f"{what}, which repeats elements. Call contiguous() before saving.")
    if 0 in shape:
        first = 0  # of no element; PyTorch may name one behind the storage
    span = count_span(shape, strides)
    if first + span > in_storage or math.prod(shape) > in_storage:
        raise Refused(f"{what} from element {first}, and storage {storage.key!r} has {in_storage} elements.")
    row_major = is_row_major(shape, strides)
    if scheme == "F4":
        if not shape or not row_major:
            raise Refused(f"{what} of four-bit numbers, which cannot be put in order.")
        shape = (*shape[:-1], 2 * shape[-1])
    return StoredTensor(storage, scheme, shape, None if row_major else strides, first)
