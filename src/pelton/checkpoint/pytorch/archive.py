"""A zip archive as PyTorch writes it, read strictly: what two readers could see differently is refused.

Invariant: the local headers say what the central directory says; records lie one behind another from the first byte
to the directory, the directory up to the end of the file, without a gap, an overlap or a comment; nothing is
compressed or encrypted, no name stands twice. So there is one reading of the file, and no record is larger than it.
Checksums are compared when a record is read: the small ones at once, tensors when they are first used.
Source: the description of the ZIP format (APPNOTE 6.3) and what the writer of PyTorch makes of it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pelton.checkpoint.fields import short
from pelton.checkpoint.mapped_file import MappedFile
from pelton.checkpoint.placed_tensor import Record
from pelton.errors import CheckpointError

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_DESCRIPTOR = struct.Struct("<4s3I")
_DESCRIPTOR_64 = struct.Struct("<4sI2Q")
_ALL_ONES_16, _ALL_ONES_32 = 0xFFFF, 0xFFFFFFFF
_HAS_DESCRIPTOR, _IS_UTF8, _IS_ENCRYPTED = 1 << 3, 1 << 11, 1 << 0 | 1 << 6 | 1 << 13
_IS_FOLDER = 0x10  # of DOS
_ZIP64_EXTRA = 1
_MAX_RECORDS = 1 << 20
_MAX_NAME_BYTES = 4096
_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of the central directory."""

    name: str
    raw_name: bytes
    flags: int
    crc: int
    nbytes: int
    header: int  # where the local header is


def read_archive(file: MappedFile) -> dict[str, Record]:
    """The records of the archive by name, in the order of the file. Raises CheckpointError; reads no record."""
    begin, end, count = _find_directory(file)
    entries = _read_directory(file, begin, end, count)
    entries.sort(key=lambda entry: entry.header)
    records: dict[str, Record] = {}
    expected = 0
    for index, entry in enumerate(entries):
        where = f"{file.path}: record {entry.name!r}"
        if entry.header != expected:
            raise CheckpointError(
                f"{where} begins at byte {entry.header}, expected {expected}: records follow one another without a gap."
            )
        following = entries[index + 1].header if index + 1 < len(entries) else begin
        offset = _check_local(file, entry, following, where)
        if entry.name in records:
            raise CheckpointError(f"{where} stands in the archive twice.")
        check = partial(_check_sum, file, offset, entry)
        records[entry.name] = Record(offset, entry.nbytes, check)
        expected = following
    if expected != begin:
        raise CheckpointError(f"{file.path}: the directory begins at byte {begin}, expected {expected}.")
    return records


def read_small(file: MappedFile, records: Mapping[str, Record], name: str, max_bytes: int) -> bytes:
    """The checked bytes of one record. Raises CheckpointError where it is missing, too large or damaged."""
    record = records.get(name)
    if record is None:
        raise CheckpointError(f"{file.path}: has no record {name!r}. It is not a checkpoint of PyTorch.")
    if record.nbytes > max_bytes:
        raise CheckpointError(f"{file.path}: record {name!r} has {record.nbytes} bytes; at most {max_bytes} are read.")
    record.check_once()
    return file.data[record.offset : record.offset + record.nbytes].tobytes()


def _find_directory(file: MappedFile) -> tuple[int, int, int]:
    """Begin and end of the central directory, and the number of its entries."""
    at = file.size - _END.size
    if at < 0 or _take(file, at, 4) != b"PK\x05\x06":
        raise CheckpointError(
            f"{file.path}: does not end like a zip archive. It is truncated, or has bytes or a comment at its end; "
            "fetch it again."
        )
    _, disk, first_disk, here, count, nbytes, begin, _ = _END.unpack(_take(file, at, _END.size))
    small = (here, count, nbytes, begin)
    locator = at - _LOCATOR.size
    if locator >= 0 and _take(file, locator, 4) == b"PK\x06\x07":
        _, end_disk, end_64, disks = _LOCATOR.unpack(_take(file, locator, _LOCATOR.size))
        at = locator - _END_64.size
        if end_64 != at or end_disk or disks != 1 or _take(file, at, 4) != b"PK\x06\x06":
            raise CheckpointError(f"{file.path}: the zip64 end of the archive is not at byte {at}, where it belongs.")
        _, size, _, _, disk, first_disk, here, count, nbytes, begin = _END_64.unpack(_take(file, at, _END_64.size))
        limits = (_ALL_ONES_16, _ALL_ONES_16, _ALL_ONES_32, _ALL_ONES_32)
        large = (here, count, nbytes, begin)
        if size != _END_64.size - 12 or not all(s in (b, m) for s, b, m in zip(small, large, limits, strict=True)):
            raise CheckpointError(f"{file.path}: the two ends of the archive, zip and zip64, contradict each other.")
    if disk or first_disk or here != count:
        raise CheckpointError(f"{file.path}: is one of several parts of a zip archive, which PyTorch never writes.")
    if begin + nbytes != at:
        raise CheckpointError(
            f"{file.path}: the directory of the archive is said to take bytes {begin} to {begin + nbytes}, and its end "
            f"is at {at}."
        )
    if count > _MAX_RECORDS or count * _CENTRAL.size > nbytes:
        raise CheckpointError(f"{file.path}: claims {count} records in a directory of {nbytes} bytes.")
    return begin, at, count


def _read_directory(file: MappedFile, begin: int, end: int, count: int) -> list[_Entry]:
    entries = []
    at = begin
    for _ in range(count):
        if at + _CENTRAL.size > end:
            raise CheckpointError(f"{file.path}: the directory of the archive ends within an entry, at byte {at}.")
        entry, at = _read_entry(file, at, end)
        entries.append(entry)
    if at != end:
        raise CheckpointError(f"{file.path}: the directory has {end - at} bytes more than its {count} entries need.")
    return entries


def _read_entry(file: MappedFile, at: int, end: int) -> tuple[_Entry, int]:
    """The entry at `at`, and where the next one is."""
    (
        magic,
        _,
        _,
        flags,
        method,
        _,
        _,
        crc,
        packed,
        nbytes,
        name_size,
        extra_size,
        note_size,
        disk,
        _,
        attributes,
        header,
    ) = _CENTRAL.unpack(_take(file, at, _CENTRAL.size))
    following = at + _CENTRAL.size + name_size + extra_size + note_size
    if magic != b"PK\x01\x02" or following > end or note_size or disk:
        raise CheckpointError(f"{file.path}: the directory of the archive is damaged at byte {at}.")
    raw = _take(file, at + _CENTRAL.size, name_size)
    name = _decode_name(file, raw, at)
    where = f"{file.path}: record {name!r}"
    extra = _read_extra(_take(file, at + _CENTRAL.size + name_size, extra_size), where)
    masked = [value == _ALL_ONES_32 for value in (nbytes, packed, header)]
    large = list(extra)
    if len(large) != sum(masked):
        raise CheckpointError(f"{where} has {len(large)} zip64 values where its entry calls for {sum(masked)}.")
    if masked[0]:
        nbytes = large.pop(0)
    if masked[1]:
        packed = large.pop(0)
    if masked[2]:
        header = large.pop(0)
    _check_plain(where, flags, method)
    if attributes & _IS_FOLDER:
        raise CheckpointError(f"{where} is marked as a folder, which some readers take for a record without bytes.")
    if packed != nbytes or nbytes > file.size:
        raise CheckpointError(
            f"{where} is said to have {packed} bytes packed, {nbytes} unpacked, in {file.size} of file."
        )
    return _Entry(name, raw, flags, crc, nbytes, header), following


def _check_plain(where: str, flags: int, method: int) -> None:
    if flags & _IS_ENCRYPTED:
        raise CheckpointError(f"{where} is encrypted, which PyTorch never does.")
    if flags & ~(_HAS_DESCRIPTOR | _IS_UTF8):
        raise CheckpointError(f"{where} has the flags {flags:#06x}; PyTorch sets none but 0x0808.")
    if method:
        raise CheckpointError(f"{where} is compressed (method {method}); PyTorch only stores. Save the model again.")


def _decode_name(file: MappedFile, raw: bytes, at: int) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        name = ""
    parts = name.split("/")
    if not name.isprintable() or len(raw) > _MAX_NAME_BYTES or set(parts) & {"", ".", ".."} or set(name) & set("\\:"):
        raise CheckpointError(
            f"{file.path}: the directory has a record called {short(raw)} at byte {at}; names are relative paths."
        )
    return name


def _read_extra(raw: bytes, where: str) -> tuple[int, ...]:
    """The zip64 values of a header's extra fields; the others only pad."""
    values: tuple[int, ...] | None = None
    at = 0
    while at < len(raw):
        kind, size = struct.unpack_from("<2H", raw, at) if at + 4 <= len(raw) else (0, len(raw))
        at += 4 + size
        if at > len(raw):
            raise CheckpointError(f"{where} has an extra field that ends behind its header.")
        if kind == _ZIP64_EXTRA:
            if values is not None or size % 8 or size > 24:
                raise CheckpointError(f"{where} has a zip64 field of {size} bytes, or two of them.")
            values = struct.unpack_from(f"<{size // 8}Q", raw, at - size)
    return values or ()


def _check_local(file: MappedFile, entry: _Entry, following: int, where: str) -> int:
    """Where the bytes of the record begin. `following` is the place of what comes next in the file."""
    if entry.header + _LOCAL.size > following:
        raise CheckpointError(f"{where} has no room for its header at byte {entry.header}.")
    magic, _, flags, method, _, _, crc, packed, nbytes, name_size, extra_size = _LOCAL.unpack(
        _take(file, entry.header, _LOCAL.size)
    )
    name_at = entry.header + _LOCAL.size
    offset = name_at + name_size + extra_size
    if magic != b"PK\x03\x04" or offset + entry.nbytes > following:
        raise CheckpointError(f"{where} is not at byte {entry.header}, or does not fit there.")
    raw = _take(file, name_at, name_size)
    if raw != entry.raw_name:
        raise CheckpointError(f"{where} is called {short(raw)} in its own header. Two readers would see two files.")
    extra = _read_extra(_take(file, name_at + name_size, extra_size), where)
    has_descriptor = bool(flags & _HAS_DESCRIPTOR)
    unknown_yet = {0} if has_descriptor else set()  # PyTorch's writer leaves the packed size of large records open
    if not set(extra) <= {entry.nbytes, entry.header} | unknown_yet:
        raise CheckpointError(f"{where} has zip64 sizes in its own header that differ from those in the directory.")
    own = (crc, packed, nbytes)
    told = (entry.crc, *((_ALL_ONES_32,) * 2 if len(extra) >= 2 and packed == _ALL_ONES_32 else (entry.nbytes,) * 2))
    if flags != entry.flags or method or own != ((0, 0, 0) if has_descriptor else told):
        raise CheckpointError(f"{where} has flags, a method, sizes or a checksum in its own header that differ.")
    rest = following - offset - entry.nbytes
    if rest or has_descriptor:
        _check_descriptor(_take(file, offset + entry.nbytes, rest) if rest <= 24 else b"", entry, has_descriptor, where)
    return int(offset)


def _check_descriptor(raw: bytes, entry: _Entry, is_expected: bool, where: str) -> None:
    layout = {_DESCRIPTOR.size: _DESCRIPTOR, _DESCRIPTOR_64.size: _DESCRIPTOR_64}.get(len(raw))
    told = (b"PK\x07\x08", entry.crc, entry.nbytes, entry.nbytes)
    if not is_expected or layout is None or layout.unpack(raw) != told:
        raise CheckpointError(f"{where} is followed by bytes that belong to nothing, or a wrong description of it.")


def _check_sum(file: MappedFile, offset: int, entry: _Entry) -> None:
    """Costs a pass over the record, a few GB/s."""
    crc = 0
    for begin in range(offset, offset + entry.nbytes, _CHUNK_BYTES):
        crc = zlib.crc32(file.data[begin : min(begin + _CHUNK_BYTES, offset + entry.nbytes)].data, crc)
    if crc != entry.crc:
        raise CheckpointError(
            f"{file.path}: record {entry.name!r} has the checksum {crc:08x}, expected {entry.crc:08x}. It is damaged; "
            "fetch it again, or save it again with checksums."
        )


def _take(file: MappedFile, at: int, size: int) -> bytes:
    return file.data[at : at + size].tobytes()
