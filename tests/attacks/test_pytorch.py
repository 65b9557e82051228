"""Hostile PyTorch files: nothing is run, only a CheckpointError comes out, soon and without much memory."""

from __future__ import annotations

import io
import struct
import tarfile
import time
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model_files import safetensors_of
from tests.pytorch_files import ORDERED_DICT, Entry, archive, file_of, files, number, state_dict, storage, tensor, text

from pelton.checkpoint.pytorch.weights import read_pytorch
from pelton.errors import CheckpointError

pytestmark = pytest.mark.cpu  # thousands of files

MAX_TRACED_BYTES = 50 << 20
SOUND = file_of()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pytorch_model.bin"


def refuse(path: Path, raw: bytes, message: str) -> None:
    path.write_bytes(raw)
    begin = time.thread_time()
    with pytest.raises(CheckpointError, match=message):
        read_pytorch(path)
    assert time.thread_time() - begin < 1.0
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=message) as caught:
            read_pytorch(path)
        assert tracemalloc.get_traced_memory()[1] < MAX_TRACED_BYTES
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 1000


def bomb(name: str, argument: str) -> bytes:
    """A pickle that runs a function where it is read by Python's own reader."""
    module, _, function = name.rpartition(".")
    called = f"c{module}\n{function}\n".encode() + text(argument) + b"\x85R"
    return file_of(state_dict({"a": called}))


def of_one(value: bytes, data: bytes = bytes(range(24))) -> bytes:
    return file_of(state_dict({"a": value}), data)


def call(name: str, arguments: bytes) -> bytes:
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode() + arguments + b"R"


def tar_file() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("pickle"))
    return buffer.getvalue()


HUGE = 1 << 62
SOUND_PICKLE = state_dict({"a": tensor()})
DEEP = b"\x80\x02)" + b"\x85" * 100_000 + b"."
# A dict of dicts, each of which holds the one before it: the last is 20,000 deep.
DEEP_DICT = b"}q\x00" + b"".join(text(str(n)) + b"}" + text("a") + b"h\x00sq\x00s" for n in range(20_000))
PARAMETER = b"ctorch._utils\n_rebuild_parameter\n("

PICKLES: dict[str, tuple[bytes, str]] = {
    "os.system": (bomb("posix.system", "touch x"), r"data\.pkl, byte \d+: names 'posix\.system', .*Nothing was"),
    "getattr": (bomb("builtins.getattr", "x"), r"names 'builtins\.getattr'"),
    "exec": (bomb("__builtin__.exec", "x = 1"), r"names '__builtin__\.exec'"),
    "a module of torch": (of_one(b"ctorch.hub\nload\n" + b")R"), r"names 'torch\.hub\.load'"),
    "a name with dots": (of_one(b"ctorch\n_utils.os.system\n)R"), r"names 'torch\._utils\.os\.system'"),
    "a global without an end": (of_one(b"c" + b"a" * 1000), "without an end"),
    "an allowed class with a huge argument": (of_one(call("torch.Size", number(HUGE) + b"\x85")), "arguments that"),
    "OrderedDict of something": (of_one(call("collections.OrderedDict", number(5) + b"\x85")), "arguments that"),
    "a call of a storage type": (of_one(call("torch.FloatStorage", number(5) + b"\x85")), "nothing here can be called"),
    "a call of a dtype": (of_one(call("torch.float32", b")")), "nothing here can be called"),
    "BUILD of a tensor": (of_one(tensor() + b"}" + text("__setstate__") + b"Nsb"), "something that is not a dict"),
    "BUILD on a dict": (file_of(SOUND_PICKLE[:-1] + b"}" + text("__class__") + b"Nsb."), "BUILD"),
    "BUILD of a number": (file_of(state_dict({"a": tensor()}, end=b"K\x01b.")), "BUILD"),
    "NEWOBJ": (of_one(b"ctorch\nSize\n)\x81"), "NEWOBJ"),
    "INST": (of_one(b"(iposix\nsystem\n"), "INST"),
    "OBJ": (of_one(b"(ctorch\nSize\no"), "OBJ"),
    "STACK_GLOBAL": (of_one(text("os") + text("system") + b"\x93"), "STACK_GLOBAL"),
    "EXT1": (of_one(b"\x82\x01"), "EXT1"),
    "an unknown opcode": (of_one(b"\xff"), r"the opcode b'\\xff'"),
    "protocol 4": (file_of(b"\x80\x04\x95\x02" + bytes(7) + b"}."), "does not begin as pickle protocol 2"),
    "protocol 0": (file_of(b"(dp0\nVa\np1\nI1\ns."), "does not begin as pickle protocol 2"),
    "two values": (file_of(b"\x80\x02}}."), "does not end with one value"),
    "bytes behind STOP": (file_of(state_dict({"a": tensor()}) + b"N"), "does not end with one value at its last byte"),
    "nothing": (file_of(b"\x80\x02."), "does not end with one value"),
    "no STOP": (file_of(b"\x80\x02}"), "ends too early"),
    "a mark as the root": (file_of(b"\x80\x02(."), "empty stack"),
    "a mark kept": (file_of(b"\x80\x02(q\x00."), "not there"),
    "a value from an empty stack": (file_of(b"\x80\x02s."), "empty stack"),
    "a mark that is not there": (file_of(b"\x80\x02}t."), "mark that is not there"),
    "a value that was not kept": (file_of(b"\x80\x02h\x05."), "which it has not kept"),
    "a name without a value": (file_of(b"\x80\x02}(" + text("a") + b"u."), "without a value"),
    "a number as a name": (file_of(b"\x80\x02}K\x01Ns."), "has 1 as a name"),
    "a name twice": (file_of(b"\x80\x02}(" + (text("a") + tensor()) * 2 + b"u."), "sets 'a' twice"),
    "a name with an escape": (file_of(state_dict({"\x1b[2J": tensor()})), "printable and not empty"),
    "an empty name": (file_of(state_dict({"": tensor()})), "printable and not empty"),
    "a name that is not UTF-8": (of_one(b"X\x01\x00\x00\x00\xff"), "not valid UTF-8"),
    "a name of a gigabyte": (of_one(b"X" + struct.pack("<I", 1 << 30)), "holds a text of 1073741824 bytes"),
    "a number of 255 bytes": (of_one(b"\x8a\xff"), "number of 255 bytes"),
    "tuples in tuples": (file_of(DEEP), "tuples within tuples"),
    "a wide tuple": (of_one(b"(" + b"N" * 1000 + b"t"), "tuple of 1000 values"),
    "marks without end": (file_of(b"\x80\x02" + b"(" * 20_000 + b"."), "on the stack"),
    "dicts in dicts": (file_of(b"\x80\x02" + DEEP_DICT + b"."), "holds a dict called '0'"),
    "a dict in itself": (file_of(b"\x80\x02}q\x00" + text("a") + b"h\x00s."), "holds a dict called 'a'"),
    "a million kept values": (
        file_of(b"\x80\x02" + b"".join(b")r" + struct.pack("<I", n) for n in range(1 << 20))),
        "keeps a value that is not there, or too many|on the stack",
    ),
    "a list": (of_one(b"]"), "holds a list"),
    "a list as the root": (file_of(b"\x80\x02]."), "holds a list"),
    "None as the root": (file_of(b"\x80\x02N."), "holds None, expected a dict"),
    "a tensor as the root": (file_of(b"\x80\x02" + tensor() + b"."), "holds a tensor, expected a dict"),
    "a class as the root": (file_of(b"\x80\x02ctorch\nFloatStorage\n."), "holds a class or a function, expected"),
    "a storage as a value": (of_one(storage()), "holds a storage called 'a'"),
    "a float as a value": (of_one(b"G" + struct.pack(">d", 1.5)), "holds 1.5 called 'a'"),
    "hooks": (of_one(tensor(hooks=b"}" + text("h") + b"Ns")), "hooks"),
    "hooks of a parameter": (of_one(PARAMETER + tensor() + b"\x88}" + text("h") + b"NstR"), "hooks"),
    "a parameter of a number": (of_one(PARAMETER + b"K\x01\x88" + ORDERED_DICT + b"tR"), "arguments that"),
    "a state": (of_one(tensor(more=b"}" + text("neg") + b"\x88s")), "state of its own"),
    "a deep state": (of_one(tensor(more=DEEP_DICT + text("last") + b"h\x00s")), "state of its own"),
    "a deep shape": (of_one(b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage() + b"K\x00" + DEEP_DICT + b")"
                            b"\x89" + ORDERED_DICT + b"tR"), "not whole numbers"),
    "2^62 elements in a storage": (of_one(tensor(stored=storage(numel=HUGE))), "claims a storage of 46116860"),
    "-1 elements in a storage": (of_one(tensor(stored=storage(numel=-1))), "claims a storage of -1"),
    "a storage of another size": (of_one(tensor(stored=storage(numel=7))), "28 bytes; its record has 24"),
    "a storage of another type": (of_one(tensor(stored=storage(kind="torch\nDoubleStorage"))), "48 bytes"),
    "a storage that is not there": (of_one(tensor(stored=storage("1"))), "storage '1', which is not in the archive"),
    "a storage outside": (of_one(tensor(stored=storage("../x"))), r"names the storage '\.\./x'"),
    "a storage of letters": (of_one(tensor(stored=storage("\u0661"))), "names the storage"),
    "a storage of complex numbers": (of_one(tensor(stored=storage(kind="torch\nComplexFloatStorage"))), "names 'torch"),
    "a storage of bytes": (of_one(tensor(stored=storage(kind="torch.storage\nUntypedStorage"))), "without a type"),
    "a reference to something else": (of_one(b"(" + text("module") + b"tQ"), "outside of the pickle"),
    "a reference by a number": (of_one(b"K\x01Q"), "outside of the pickle"),
    "2^62 elements": (of_one(tensor((HUGE, 4), (4, 1))), "whole numbers"),
    "a product that overflows": (of_one(tensor((1 << 32, 1 << 32), (1 << 32, 1))), "storage '0' has 6 elements"),
    "negative axis": (of_one(tensor((-2, 3))), "whole numbers"),
    "negative stride": (of_one(tensor((2, 3), (-3, 1))), "whole numbers"),
    "negative place": (of_one(tensor(first=-1)), "whole numbers"),
    "stride 0": (of_one(tensor((2, 3), (0, 1))), "repeats elements"),
    "stride 0 of a terabyte": (of_one(tensor((1 << 40,), (0,))), "repeats elements"),
    "strides beyond the record": (of_one(tensor((2, 3), (4, 1))), "has 6 elements"),
    "place beyond the record": (of_one(tensor(first=1)), "has 6 elements"),
    "fewer strides than axes": (of_one(tensor((2, 3), (1,))), "2 axes and 1 strides"),
    "nine axes": (of_one(tensor((1,) * 9, (1,) * 9)), "9 axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", PICKLES)
def test_pickles(path: Path, name: str) -> None:
    before = set(Path.cwd().iterdir())
    refuse(path, *PICKLES[name])
    assert set(Path.cwd().iterdir()) == before


def deflated() -> bytes:
    """A megabyte of zeros in a kilobyte: ten gigabytes would be refused for the same reason."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = packer.compress(bytes(1 << 20)) + packer.flush()
    return file_of(data=raw, storage={"local": {"method": 8}, "central": {"method": 8, "nbytes": 1 << 20}})


def changed(record: str, *, in_both: bool = False, **central: object) -> bytes:
    return file_of(**{record: {"central": central, **({"local": central} if in_both else {})}})


def zip64(*values: int) -> bytes:
    return struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values)


TWICE = [*files(), Entry("m/data.pkl", state_dict({"b": tensor()}))]
ONES = 0xFFFFFFFF

ARCHIVES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "safetensors": (safetensors_of({"a": np.zeros(2)}), r"looks like safetensors\. Give it the suffix"),
    "GGUF": (b"GGUF" + bytes(100), "is a GGUF file"),
    "git-lfs": (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of git-lfs"),
    "a tar archive": (tar_file(), "a tar archive, as PyTorch wrote before"),
    "a bare pickle": (b"\x80\x02}q\x00.", "a bare pickle, as PyTorch wrote before 1.6"),
    "a newer bare pickle": (b"\x80\x05}\x94.", "a bare pickle"),
    "text": (b"hello world", "begins with b'hello wo'"),
    "bytes before the archive": (b"x" + SOUND, "begins with b'xPK"),
    "bytes behind the archive": (SOUND + b"x", "does not end like a zip archive"),
    "a comment": (archive(files(), tail=b"comment"), "does not end like a zip archive"),
    "two archives": (SOUND + SOUND, "said to take bytes"),
    "no records": (archive([]), "begins with b'PK"),
    "a name twice": (archive(TWICE), "record 'm/data.pkl' stands in the archive twice"),
    "a name twice, another first": (archive(TWICE[::-1]), "stands in the archive twice"),
    "another name in the header": (file_of(data_pkl={"local_name": "m/data.pk1"}), r"called b'm/data\.pk1' in its own"),
    "a longer name in the header": (file_of(data_pkl={"local_name": "m/data.pkl2"}), "in its own header"),
    "compressed": (deflated(), r"is compressed \(method 8\)"),
    "compressed by its own header": (file_of(storage={"local": {"method": 8}}), "in its own header that differ"),
    "encrypted": (changed("storage", in_both=True, flags=1), "is encrypted"),
    "encrypted by its own header": (file_of(storage={"local": {"flags": 1}}), "in its own header that differ"),
    "other flags": (changed("storage", in_both=True, flags=0x20), "has the flags 0x0020"),
    "another size in the header": (file_of(storage={"local": {"nbytes": 8, "packed": 8}}), "in its own header that"),
    "another checksum in the header": (file_of(data_pkl={"local": {"crc": 1}}), "in its own header that differ"),
    "a wrong checksum": (changed("data_pkl", in_both=True, crc=1), "has the checksum"),
    "packed is not unpacked": (changed("storage", nbytes=25), "24 bytes packed, 25 unpacked"),
    "larger than the file": (changed("storage", nbytes=1 << 30, packed=1 << 30), "1073741824 unpacked, in"),
    "longer than its room": (changed("storage", nbytes=50, packed=50), "does not fit there"),
    "shorter than its room": (changed("storage", in_both=True, nbytes=20, packed=20), "belong to nothing"),
    "a header inside another record": (changed("version", header=10), "has no room for its header at byte 0"),
    "a header in the directory": (changed("version", header=10_000), "belong to nothing"),
    "bytes between records": (file_of(data_pkl={"behind": b"hidden"}), "belong to nothing"),
    "a descriptor nobody announced": (file_of(data_pkl={"behind": b"PK\x07\x08" + bytes(12)}), "belong to nothing"),
    "a descriptor that is not there": (file_of(storage={"local": {"flags": 8, "crc": 0, "packed": 0, "nbytes": 0},
                                                        "central": {"flags": 8}}), "belong to nothing"),
    "zip64 sizes that lie": (file_of(storage={"central": {"nbytes": ONES, "packed": ONES},
                                              "central_extra": zip64(1 << 40, 1 << 40)}), "1099511627776 unpacked, in"),
    "zip64 sizes without a need": (file_of(storage={"central_extra": zip64(24, 24)}), "2 zip64 values where"),
    "zip64 sizes that are missing": (changed("storage", nbytes=ONES, packed=ONES), "0 zip64 values where"),
    "zip64 sizes of the header": (file_of(storage={"local_extra": zip64(25, 25)}), "in its own header that differ"),
    "zip64 twice": (file_of(storage={"local_extra": zip64(24) + zip64(24)}), "or two of them"),
    "zip64 of 4 bytes": (file_of(storage={"local_extra": b"\x01\x00\x04\x00abcd"}), "zip64 field of 4 bytes"),
    "an extra field beyond": (file_of(storage={"local_extra": b"FB\xff\xff"}), "ends behind its header"),
    "an extra field cut": (file_of(storage={"local_extra": b"FB\x00"}), "ends behind its header"),
    "a comment of a record": (changed("storage", note_size=3), "the directory of the archive is damaged"),
    "a record on another disk": (changed("storage", disk=1), "the directory of the archive is damaged"),
    "a record that is a folder": (changed("storage", external=0x10), "is marked as a folder"),
    "65535 records": (archive(files(), end={"here": 0xFFFF, "count": 0xFFFF}), "claims 65535 records"),
    "fewer records": (archive(files(), end={"here": 3, "count": 3}), "bytes more than its 3 entries need"),
    "parts": (archive(files(), end={"here": 1}), "one of several parts"),
    "a directory elsewhere": (archive(files(), end={"begin": 7}), "said to take bytes 7"),
    "a directory beyond": (archive(files(), end={"nbytes": ONES, "begin": ONES}), "said to take bytes"),
    "a name with ..": (archive([*files(), Entry("m/../x", b"")]), "names are relative paths"),
    "an absolute name": (archive([*files(), Entry("/etc/passwd", b"")]), "names are relative paths"),
    "a name of Windows": (archive([*files(), Entry("m\\x", b"")]), "names are relative paths"),
    "a name with a line break": (archive([*files(), Entry("m/a\nb", b"")]), "names are relative paths"),
    "an empty record name": (archive([*files(), Entry("", b"")]), "names are relative paths"),
    "two folders": (archive([*files(), Entry("n/data/1", b"")]), "in 2 folders"),
    "no folder": (archive([Entry("data.pkl", state_dict({}))]), "expected one"),
    "no pickle": (archive(files()[1:]), "has no record 'data.pkl'"),
    "a record of no tensor": (archive([*files(), Entry("m/data/1", b"x")]), "record 'data/1', of no tensor"),
    "big-endian": (file_of(byteorder={"data": b"big"}), "its byteorder is b'big'"),
    "another version": (file_of(version={"data": b"9"}), "version b'9'"),
    "a large note": (file_of(version={"data": bytes(1000)}), "has 1000 bytes; at most"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(path: Path, name: str) -> None:
    refuse(path, *ARCHIVES[name])


def test_the_sound_file_is_read(path: Path) -> None:
    path.write_bytes(SOUND)
    assert list(read_pytorch(path)) == ["a"]


def test_every_truncation_is_refused(path: Path) -> None:
    for length in range(len(SOUND)):
        path.write_bytes(SOUND[:length])
        with pytest.raises(CheckpointError):
            read_pytorch(path)


def test_every_shortened_pickle_is_refused(path: Path) -> None:
    sound = state_dict({"a": tensor()})
    for length in range(len(sound)):
        path.write_bytes(file_of(sound[:length]))
        with pytest.raises(CheckpointError, match=r"data\.pkl, byte \d+: "):
            read_pytorch(path)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes_do_no_harm(path: Path, data: st.DataObject) -> None:
    raw = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    with suppress(CheckpointError):
        for placed in read_pytorch(path).values():
            placed.flat()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([bytes([code]) for code in range(256)] + [text("a"), tensor(), storage()]), max_size=30)
)
def test_pickles_of_random_opcodes_do_no_harm(path: Path, opcodes: list[bytes]) -> None:
    path.write_bytes(file_of(b"\x80\x02" + b"".join(opcodes) + b"."))
    with suppress(CheckpointError):
        read_pytorch(path)
