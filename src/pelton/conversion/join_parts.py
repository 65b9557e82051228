"""The parts of a split GGUF as one file: the same tensors and the same keys, but for those that count the parts."""

from __future__ import annotations

from collections.abc import Callable

from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.gguf.container import GgufTensor
from pelton.checkpoint.outgoing import Outgoing
from pelton.checkpoint.weight import Bytes
from pelton.conversion.result import Output, TensorRecord
from pelton.errors import CheckpointError

OWN_KEYS = "split."


def join_parts(checkpoint: GgufCheckpoint, scheme: str | None) -> Output:
    """What to write. Raises CheckpointError if it is one file already, or other weights are asked for."""
    if len(checkpoint.files) == 1 or scheme is not None:
        raise CheckpointError(
            f"{checkpoint.path}: is a GGUF already; only the parts of a split one are joined, as they are."
        )
    return Output(
        tensors=[
            Outgoing(name, each.info.shape, each.info.scheme, _reader(each)) for name, each in checkpoint.stored.items()
        ],
        records=[TensorRecord(name, (name,), (), each.info.scheme) for name, each in checkpoint.stored.items()],
        losses=[],
        metadata={key: value for key, value in checkpoint.metadata.items() if not key.startswith(OWN_KEYS)},
    )


def _reader(tensor: GgufTensor) -> Callable[[], Bytes]:
    return lambda: tensor.file.rows(tensor.offset, 1, tensor.info.nbytes)
