"""A model.onnx, read for its weights: initializers, the nodes that use them, metadata. Nothing is executed.

Invariant of what is returned: operators are those of ONNX itself or of onnxruntime, every value is made once and before
it is used, no name of an initializer occurs twice in a graph, graphs are nested a few levels at most, and no tensor has
its numbers in two places. Functions of the file's own, training, sparse and segmented tensors are refused.
Source: onnx.proto of ONNX 1.23, whose field numbers these are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pelton.checkpoint.fields import short
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.onnx.wire import BYTES, FIXED32, FIXED64, VARINT, Field, Kind, Wire, signed
from pelton.errors import CheckpointError

_V, _B, _F, _P, _D = (VARINT,), (BYTES,), (FIXED32,), (VARINT, BYTES), (FIXED64,)
MODEL = Kind(
    "ModelProto",
    {1: _V, 2: _B, 3: _B, 4: _B, 5: _V, 6: _B, 7: _B, 8: _B, 14: _B, 20: _B, 25: _B, 26: _B},
    frozenset({8, 14, 20, 25, 26}),
)
OPSET = Kind("OperatorSetIdProto", {1: _B, 2: _V}, frozenset())
ENTRY = Kind("StringStringEntryProto", {1: _B, 2: _B}, frozenset())
GRAPH = Kind(
    "GraphProto",
    {1: _B, 2: _B, 5: _B, 10: _B, 11: _B, 12: _B, 13: _B, 14: _B, 15: _B, 16: _B},
    frozenset({1, 5, 11, 12, 13, 14, 15, 16}),
    most=1_000_000,
)
NODE = Kind("NodeProto", dict.fromkeys(range(1, 11), _B), frozenset({1, 2, 5, 9, 10}))
ATTRIBUTE = Kind(
    "AttributeProto",
    {
        1: _B,
        2: _F,
        3: _V,
        4: _B,
        5: _B,
        6: _B,
        7: (FIXED32, BYTES),
        8: _P,
        9: _B,
        10: _B,
        11: _B,
        13: _B,
        14: _B,
        15: _B,
        20: _V,
        21: _B,
        22: _B,
        23: _B,
    },
    frozenset({7, 8, 9, 10, 11, 15, 23}),
)
VALUE_INFO = Kind("ValueInfoProto", {1: _B, 2: _B, 3: _B, 4: _B}, frozenset({4}))
TENSOR = Kind(
    "TensorProto",
    {
        1: _P,
        2: _V,
        3: _B,
        4: (FIXED32, BYTES),
        5: _P,
        6: _B,
        7: _P,
        8: _B,
        9: _B,
        10: (FIXED64, BYTES),
        11: _P,
        12: _B,
        13: _B,
        14: _V,
        16: _B,
    },
    frozenset({1, 4, 5, 6, 7, 10, 11, 13, 16}),
    most=100,
)
_DOMAINS: Final = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
_IR_VERSIONS, _OPSETS = range(3, 15), range(1, 28)
_MAX_FILE_BYTES: Final = (1 << 31) - 1  # of protocol buffers
_MAX_DEPTH: Final = 8
_MAX_GRAPHS: Final = 100
_MAX_RANK: Final = 16
_MAX_METADATA_BYTES: Final = 64 << 20
_LISTS = (4, 5, 7, 10, 11)  # numbers outside of raw_data


@dataclass(frozen=True, slots=True)
class Initializer:
    """A named tensor. Its numbers are at `raw` in the file or where `external` says, or it has them in a list."""

    name: str
    dims: tuple[int, ...]
    data_type: int
    raw: tuple[int, int] | None
    external: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class Node:
    """An operator, as far as weights are concerned: `integers` are its attributes of one whole number."""

    name: str
    op: str
    inputs: tuple[str, ...]
    integers: dict[str, int]


@dataclass(slots=True)
class ModelFile:
    """What is in the file, its subgraphs included."""

    initializers: dict[str, Initializer] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)


def read_model_file(file: MappedFile) -> ModelFile:
    """Everything but the weights' numbers. Raises CheckpointError."""
    if file.size > _MAX_FILE_BYTES:
        raise CheckpointError(f"{file.path}: has {file.size} bytes; protocol buffers end at {_MAX_FILE_BYTES}.")
    return _Reader(file).read()


class _Reader:
    def __init__(self, file: MappedFile) -> None:
        self._where = str(file.path)
        self._wire = Wire(memoryview(file.data.data), self._where)
        self._size = file.size
        self._model = ModelFile()
        self._num_graphs = 0

    def read(self) -> ModelFile:
        found = self._wire.collect(MODEL, 0, self._size)
        for number, what in ((20, "training information"), (25, "functions of its own")):
            if number in found:
                raise self._error(f"has {what}, which weights are not followed through. Export it without")
        version = found[1][0].value if 1 in found else 0
        if version not in _IR_VERSIONS:
            raise self._error(f"is of version {version} of ONNX; {_IR_VERSIONS[0]} to {_IR_VERSIONS[-1]} are known")
        self._check_opsets(found.get(8, []))
        self._model.metadata = self._entries(found.get(14, []), _MAX_METADATA_BYTES)
        if 7 not in found:
            raise self._error("has no graph. It is not a model")
        self._graph(found[7][0], frozenset(), 1)
        return self._model

    def _error(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self._where}: {what}.")

    def _check_opsets(self, fields: list[Field]) -> None:
        seen: set[str] = set()
        for each in fields:
            found = self._wire.collect(OPSET, each.begin, each.end)
            domain = self._wire.text(found[1][0]) if 1 in found else ""
            version = found[2][0].value if 2 in found else 0
            self._check_domain(domain)
            if domain in seen or (domain in ("", "ai.onnx") and version not in _OPSETS):
                raise self._error(
                    f"imports version {version} of the operators {domain!r}; once, and {_OPSETS[-1]} at most"
                )
            seen.add(domain)
        if not seen:
            raise self._error("imports no operators. It is not a model")

    def _check_domain(self, domain: str) -> None:
        if domain not in _DOMAINS:
            raise self._error(f"has operators of {short(domain)}; those of ONNX and onnxruntime are known")

    def _entries(self, fields: list[Field], max_bytes: int) -> dict[str, str]:
        entries: dict[str, str] = {}
        for each in fields:
            found = self._wire.collect(ENTRY, each.begin, each.end)
            key = self._wire.text(found[1][0]) if 1 in found else ""
            if key in entries:
                raise self._error(f"has the key {short(key)} twice")
            entries[key] = self._wire.text(found[2][0], max_bytes=max_bytes) if 2 in found else ""
        return entries

    def _graph(self, place: Field, outer: frozenset[str], depth: int) -> None:
        self._num_graphs += 1
        if depth > _MAX_DEPTH or self._num_graphs > _MAX_GRAPHS:
            raise self._error(
                f"byte {place.begin}: graphs are nested more than {_MAX_DEPTH} deep, or more than {_MAX_GRAPHS}"
            )
        found = self._wire.collect(GRAPH, place.begin, place.end)
        if 15 in found:
            raise self._error("has sparse initializers, which are not read. Export it with dense ones")
        own: set[str] = set()
        for each in found.get(5, []):
            tensor = self._tensor(each)
            if not tensor.name or tensor.name in own or (depth == 1 and tensor.name in self._model.initializers):
                raise self._error(f"has two initializers called {short(tensor.name)}, or one without a name")
            own.add(tensor.name)
            if self._model.initializers.setdefault(tensor.name, tensor) is not tensor:
                raise self._error(f"has two initializers called {short(tensor.name)}, in two graphs")
        inputs = set(self._names(found.get(11, [])))
        self._nodes(found.get(1, []), outer, own | inputs, depth)

    def _names(self, fields: list[Field]) -> list[str]:
        names = []
        for each in fields:
            info = self._wire.collect(VALUE_INFO, each.begin, each.end)
            names.append(self._wire.text(info[1][0]) if 1 in info else "")
        if len(names) != len(set(names)):
            raise self._error("has two inputs of one name")
        return names

    def _nodes(self, fields: list[Field], outer: frozenset[str], known: set[str], depth: int) -> None:
        for each in fields:
            found = self._wire.collect(NODE, each.begin, each.end)
            inputs, outputs = ([self._wire.text(text) for text in found.get(number, [])] for number in (1, 2))
            name, op, domain = (self._wire.text(found[n][0]) if n in found else "" for n in (3, 4, 7))
            self._check_domain(domain)
            for used in inputs:
                if used and used not in known and used not in outer:
                    raise self._error(f"node {short(name)} uses {short(used)}, which nothing before it makes")
            integers: dict[str, int] = {}
            for attribute in found.get(5, []):
                self._attribute(attribute, integers, outer | known if _has_graphs(op) else outer, depth)
            for made in outputs:
                if made and made in known:
                    raise self._error(f"node {short(name)} makes {short(made)}, which is there already")
                known.add(made)
            self._model.nodes.append(Node(name, op, tuple(inputs), integers))

    def _attribute(self, place: Field, integers: dict[str, int], outer: frozenset[str], depth: int) -> None:
        found = self._wire.collect(ATTRIBUTE, place.begin, place.end)
        if 22 in found or 23 in found:
            raise self._error("has sparse tensors, which are not read")
        name = self._wire.text(found[1][0]) if 1 in found else ""
        if 3 in found:
            integers[name] = signed(found[3][0].value)
        for each in (*found.get(5, []), *found.get(10, [])):
            if self._tensor(each).external is not None:
                raise self._error(f"byte {each.begin}: a constant of a node has its numbers in another file")
        for each in (*found.get(6, []), *found.get(11, [])):
            self._graph(each, outer, depth + 1)

    def _tensor(self, place: Field) -> Initializer:
        found = self._wire.collect(TENSOR, place.begin, place.end)
        name = self._wire.text(found[8][0]) if 8 in found else ""
        dims = tuple(self._wire.integers(found.get(1, []), _MAX_RANK))
        if any(dim < 0 for dim in dims):
            raise self._error(f"tensor {short(name)} has the shape {short(list(dims))}; no axis is negative")
        if 3 in found:
            raise self._error(f"tensor {short(name)} is a segment of a tensor, which is not read")
        location = found[14][0].value if 14 in found else 0
        places = [bool(location), 9 in found, any(number in found for number in (*_LISTS, 6))]
        if location > 1 or sum(places) > 1 or (13 in found and not location):
            raise self._error(f"tensor {short(name)} has its numbers in two places, or in one that is not known")
        external = self._entries(found.get(13, []), 4096) if location else None
        raw = (found[9][0].begin, found[9][0].end) if 9 in found else None
        if raw is None and external is None and 4 in found and found[4][0].wire == BYTES and len(found[4]) == 1:
            raw = found[4][0].begin, found[4][0].end  # float32, packed: the same bytes as raw_data
        return Initializer(name, dims, found[2][0].value if 2 in found else 0, raw, external)


def _has_graphs(op: str) -> bool:
    return op in ("If", "Loop", "Scan", "SequenceMap")
