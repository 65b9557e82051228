"""Makes a file wrong in the ways that readers get wrong: bytes, numbers that claim too much, pieces moved and lost."""

from __future__ import annotations

from random import Random

BYTES = (0, 1, 2, 4, 8, 9, 10, 12, 13, 127, 128, 254, 255)
EDGES = (8, 16, 31, 32, 40, 61, 63, 64)
NUMBERS = (0, 1, 2, *(1 << bit for bit in EDGES[:-1]), *((1 << bit) - 1 for bit in EDGES))


def mutate(raw: bytes, random: Random) -> bytes:
    """`raw` with one to four changes."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        raw = random.choice(CHANGES)(raw, random)
    return raw


def set_byte(raw: bytes, random: Random) -> bytes:
    at = _place(raw, random)
    return raw[:at] + bytes([random.choice(BYTES)]) + raw[at + 1 :]


def flip_bit(raw: bytes, random: Random) -> bytes:
    at = _place(raw, random)
    return raw[:at] + bytes([raw[at] ^ 1 << random.randrange(8)]) + raw[at + 1 :] if raw else raw


def set_number(raw: bytes, random: Random) -> bytes:
    """A number of four or eight bytes, anywhere: lengths of these formats are not aligned."""
    at, size = _place(raw, random), random.choice((4, 8))
    return raw[:at] + (random.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "little") + raw[at + size :]


def add_to_number(raw: bytes, random: Random) -> bytes:
    at, size = _place(raw, random), random.choice((4, 8))
    number = int.from_bytes(raw[at : at + size], "little") + random.choice((-32, -8, -1, 1, 8, 32))
    return raw[:at] + (number % (1 << 8 * size)).to_bytes(size, "little") + raw[at + size :]


def cut(raw: bytes, random: Random) -> bytes:
    return raw[: _place(raw, random)]


def lose_a_piece(raw: bytes, random: Random) -> bytes:
    at = _place(raw, random)
    return raw[:at] + raw[at + random.randint(1, 64) :]


def repeat_a_piece(raw: bytes, random: Random) -> bytes:
    at, length = _place(raw, random), random.randint(1, 64)
    return raw[: at + length] + raw[at : at + length] * random.choice((1, 1, 40)) + raw[at + length :]


def move_a_piece(raw: bytes, random: Random) -> bytes:
    at, length, to = _place(raw, random), random.randint(1, 64), _place(raw, random)
    piece, rest = raw[at : at + length], raw[:at] + raw[at + length :]
    return rest[:to] + piece + rest[to:]


def fill(raw: bytes, random: Random) -> bytes:
    """Zeros, as a download leaves behind that has only made room."""
    at, length = _place(raw, random), random.randint(8, 512)
    return raw[:at] + bytes(min(length, len(raw) - at)) + raw[at + length :]


def append(raw: bytes, random: Random) -> bytes:
    return raw + random.randbytes(random.choice((1, 8, 32, 100)))


CHANGES = (
    set_byte, set_byte, flip_bit, set_number, set_number, add_to_number, cut, lose_a_piece, repeat_a_piece,
    move_a_piece, fill, append,
)  # fmt: skip


def _place(raw: bytes, random: Random) -> int:
    """Half of all changes fall into the first part of a file, where headers are."""
    return random.randrange(max(1, len(raw) // random.choice((1, 1, 4, 16))))
