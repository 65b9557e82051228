"""What torch.save writes is read as torch reads it. Broken files: tests/attacks/test_pytorch.py."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pytorch_files import archive, file_of, files, state_dict, storage, tensor

from pelton.checkpoint.placed_tensor import PlacedTensor
from pelton.checkpoint.pytorch.weights import find_shared, read_pytorch
from pelton.checkpoint.weight import Conversion
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit

SCHEMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
}


def bytes_of(placed: PlacedTensor) -> bytes:
    rows = placed.rows()
    return (rows.make() if isinstance(rows, Conversion) else rows).tobytes()


def expected_bytes(values: torch.Tensor) -> bytes:
    flat = values.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def random_bytes(dtype: torch.dtype, numel: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    high = 2 if dtype == torch.bool else 256
    raw = torch.randint(0, high, (numel * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype) if numel else torch.zeros(0, dtype=dtype)


@st.composite
def state_dicts(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    """Tensors of any dtype, some of them views of each other: transposed, sliced, with steps, of no or one element."""
    tensors: dict[str, torch.Tensor] = {}
    for index in range(draw(st.integers(0, 4))):
        dtype = draw(st.sampled_from(list(SCHEMES)))
        shape = draw(st.lists(st.integers(0, 4), max_size=4))
        numel = 1
        for length in shape:
            numel *= length
        whole = random_bytes(dtype, numel, index).reshape(shape)
        tensors[f"t{index}"] = torch.nn.Parameter(whole) if draw(st.booleans()) and whole.is_floating_point() else whole
        for view in range(draw(st.integers(0, 2))):
            tensors[f"t{index}.v{view}"] = draw_view(draw, whole)
    return tensors


def draw_view(draw: st.DrawFn, whole: torch.Tensor) -> torch.Tensor:
    if not whole.ndim:
        return whole.detach()
    view = whole.permute(draw(st.permutations(range(whole.ndim))))
    for axis in range(view.ndim):
        step, begin = draw(st.integers(1, 2)), draw(st.integers(0, 2))
        view = view[(slice(None),) * axis + (slice(begin, None, step),)]
    return view


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensors=state_dicts())
def test_what_torch_saves_is_read_back(tmp_path: Path, tensors: dict[str, torch.Tensor]) -> None:
    path = tmp_path / "x.bin"
    torch.save(tensors, path)
    placed = read_pytorch(path)
    assert list(placed) == list(tensors)
    for name, values in tensors.items():
        info = placed[name].info
        assert (info.shape, info.scheme) == (tuple(values.shape), SCHEMES[values.dtype])
        assert info.nbytes == values.numel() * values.dtype.itemsize
        assert bytes_of(placed[name]) == expected_bytes(values)
        assert placed[name].flat().tobytes() == expected_bytes(values)


def test_the_state_dict_of_a_module(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    torch.save(module.state_dict(), tmp_path / "x.pt")
    assert list(read_pytorch(tmp_path / "x.pt")) == list(module.state_dict())


def test_tied_weights_are_told(tmp_path: Path) -> None:
    weight = torch.ones(3, 2)
    torch.save({"a": weight, "b": torch.ones(2), "c": weight, "d": torch.nn.Parameter(weight)}, tmp_path / "x.bin")
    assert find_shared(read_pytorch(tmp_path / "x.bin")) == [("a", "c", "d")]


def test_four_bit_numbers_count_twice(tmp_path: Path) -> None:
    raw = torch.arange(6, dtype=torch.uint8).reshape(2, 3)
    torch.save({"a": raw.view(torch.float4_e2m1fn_x2)}, tmp_path / "x.bin")
    placed = read_pytorch(tmp_path / "x.bin")["a"]
    assert (placed.info.shape, placed.info.scheme, placed.info.nbytes) == ((2, 6), "F4", 6)
    assert bytes_of(placed) == bytes(range(6))


def test_an_archive_of_another_writer(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.bin", "w") as archive_file:
        for entry in files():
            with archive_file.open(entry.name, "w", force_zip64=entry.name == "m/data/0") as record:
                record.write(entry.data)
    assert bytes_of(read_pytorch(tmp_path / "x.bin")["a"]) == bytes(range(24))


def test_old_files_do_not_tell_their_byte_order(tmp_path: Path) -> None:
    entries = [entry for entry in files() if entry.name != "m/byteorder"]
    (tmp_path / "x.bin").write_bytes(archive(entries))
    assert list(read_pytorch(tmp_path / "x.bin")) == ["a"]


def test_a_damaged_record_is_found_when_it_is_read(tmp_path: Path) -> None:
    raw = file_of()
    at = raw.index(bytes(range(24)))
    (tmp_path / "x.bin").write_bytes(raw[: at + 5] + b"?" + raw[at + 6 :])
    placed = read_pytorch(tmp_path / "x.bin")["a"]
    rows = placed.rows()
    assert isinstance(rows, Conversion)
    for read in (rows.make, placed.flat, rows.make):
        with pytest.raises(CheckpointError, match=r"record 'm/data/0' has the checksum [0-9a-f]{8}, expected"):
            read()


UNSOUND: dict[str, tuple[Any, str]] = {
    "sparse": (torch.sparse_coo_tensor([[0], [0]], [1.0], (2, 2), check_invariants=True), "_rebuild_sparse_tensor"),
    "complex": (torch.zeros(2, dtype=torch.complex64), "torch.ComplexFloatStorage"),
    "meta": (torch.zeros(2, device="meta"), "_rebuild_meta_tensor_no_storage"),
    "expanded": (torch.ones(1, 2).expand(3, 2), "repeats elements"),
    "negated": (torch._neg_view(torch.ones(2)), "a state of its own"),
    "a list": ([1], "a list"),
    "a number": (3, "holds 3 called 'x'; a state dict holds tensors only"),
    "a dict": ({"y": torch.ones(1)}, "holds a dict called 'x'"),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_other_objects_than_plain_tensors_are_refused(tmp_path: Path, name: str) -> None:
    value, message = UNSOUND[name]
    torch.save({"x": value}, tmp_path / "x.bin")
    with pytest.raises(CheckpointError, match=message):
        read_pytorch(tmp_path / "x.bin")


def test_a_whole_module_is_refused(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "x.bin")
    with pytest.raises(CheckpointError, match=r"names 'torch\.nn\.modules\.linear\.Linear'.*Nothing was imported"):
        read_pytorch(tmp_path / "x.bin")


def test_a_program_is_refused(tmp_path: Path) -> None:
    entries = [*files()[:1], *files()[2:]]
    raw = archive([*entries, type(entries[0])("m/constants.pkl", b"\x80\x02).")])
    (tmp_path / "x.pt").write_bytes(raw)
    with pytest.raises(CheckpointError, match="a TorchScript program"):
        read_pytorch(tmp_path / "x.pt")


def test_storages_of_one_key_agree(tmp_path: Path) -> None:
    other = tensor((4,), (1,), stored=storage(numel=12, kind="torch\nHalfStorage"))
    (tmp_path / "x.bin").write_bytes(file_of(state_dict({"a": tensor(), "b": other})))
    with pytest.raises(CheckpointError, match=r"b is in storage '0' of 12 elements, 24 bytes; .* another tensor says"):
        read_pytorch(tmp_path / "x.bin")


def test_a_file_without_tensors(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({}, buffer)
    (tmp_path / "x.bin").write_bytes(buffer.getvalue())
    assert read_pytorch(tmp_path / "x.bin") == {}
