"""The pickle of a state dict, read by a machine that can make tensor descriptors and nothing else.

Pickle is a program for a stack machine; the one of Python may call whatever is installed. This one knows the two dozen
opcodes that PyTorch writes for a dict of tensors. A global is a name in a table, never an import; a call is the choice
of one of five rules (`rebuild`), on arguments of checked types. Everything else ends with a CheckpointError that says
where, and there is nothing to fall back to. No recursion; memory is bounded by the size of the pickle, which is.
Source: the opcodes of pickle protocol 2, and what `torch.save` writes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from pelton.checkpoint.fields import short
from pelton.checkpoint.pytorch.rebuild import GLOBALS, Call, Global, Refused, Storage, StoredTensor, call, make_storage
from pelton.errors import CheckpointError

MAX_PICKLE_BYTES: Final = 16 << 20  # some 100,000 tensors, as PyTorch writes them
_MAX_STACK = 10_000  # PyTorch's pickler writes a dict in pieces of a thousand
_MAX_TUPLE = 16
_MAX_MEMO = 1 << 19  # PyTorch keeps eight values for each tensor
_MAX_TEXT_BYTES = 4096
_MAX_GLOBAL_BYTES = 200
_MARK = object()
_ADVICE = "Save model.state_dict() alone, best as safetensors, where you trust the file's author."
_KINDS: Final = {
    b"i": "a call of a class (INST)",
    b"o": "a call of a class (OBJ)",
    b"\x81": "a call of a class (NEWOBJ)",
    b"\x92": "a call of a class (NEWOBJ_EX)",
    b"\x93": "an import by a computed name (STACK_GLOBAL)",
    b"\x82": "an import by number (EXT1)",
    b"\x83": "an import by number (EXT2)",
    b"\x84": "an import by number (EXT4)",
    b"]": "a list",
    b"l": "a list",
    b"\x8f": "a set",
    b"C": "bytes",
    b"B": "bytes",
    b"\x95": "a frame of a newer pickle protocol",
    b"P": "a reference as text",
}


def read_state_dict(raw: bytes, where: str) -> dict[str, StoredTensor]:
    """The tensors that the pickle describes, by name. `where` begins every message: "model.bin: data.pkl"."""
    machine = _Machine(raw)
    try:
        root = machine.run()
        return _check_root(root)
    except Refused as refused:
        raise CheckpointError(f"{where}, byte {machine.opcode_at}: {refused} {_ADVICE}") from None


def _check_root(root: Any) -> dict[str, StoredTensor]:
    if not isinstance(root, dict):
        raise Refused(f"holds {_describe(root)}, expected a dict of tensors.")
    for name, value in root.items():
        if not isinstance(value, StoredTensor):
            raise Refused(f"holds {_describe(value)} called {short(name)}; a state dict holds tensors only.")
        if not name or not name.isprintable():
            raise Refused(f"holds a tensor called {short(name)}; names are printable and not empty.")
    return root


def _describe(value: Any) -> str:
    """What a value is, without looking into it: it may be deep."""
    if isinstance(value, str | int | float | bool) or value is None:
        return short(value)
    if isinstance(value, Global):
        return "a class or a function"
    kinds = {dict: "a dict", tuple: "a tuple", StoredTensor: "a tensor", Storage: "a storage"}
    return kinds[type(value)]


class _Machine:
    """A stack, a memo, and a place in the pickle."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0
        self.opcode_at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """What is on the stack at STOP."""
        if self._take(2) != b"\x80\x02":
            raise Refused("does not begin as pickle protocol 2, which PyTorch writes.")
        while True:
            self.opcode_at = self._at
            opcode = self._raw[self._at : self._at + 1]
            self._at += 1
            if opcode == b".":
                break
            action = _ACTIONS.get(opcode)
            if action is None:
                if not opcode:
                    raise Refused("ends too early.")
                kind = _KINDS.get(opcode, f"the opcode {opcode!r}")
                raise Refused(f"holds {kind}, which a dict of tensors does not need. Nothing was run.")
            action(self)
            if len(self._stack) > _MAX_STACK:
                raise Refused(f"keeps more than {_MAX_STACK} values on the stack.")
        if len(self._stack) != 1 or self._at != len(self._raw):
            raise Refused("does not end with one value at its last byte.")
        return self._pop()

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def push_mark(self) -> None:
        self._stack.append(_MARK)

    def push_integer(self, size: int) -> None:
        self.push(int.from_bytes(self._take(size), "little"))

    def push_signed(self) -> None:
        self.push(int.from_bytes(self._take(4), "little", signed=True))

    def push_long(self) -> None:
        size = self._number(1)
        if size > 9:
            raise Refused(f"holds a number of {size} bytes.")
        self.push(int.from_bytes(self._take(size), "little", signed=True))

    def push_float(self) -> None:
        self.push(struct.unpack(">d", self._take(8))[0])

    def push_text(self) -> None:
        size = self._number(4)
        if size > _MAX_TEXT_BYTES:
            raise Refused(f"holds a text of {size} bytes; names have at most {_MAX_TEXT_BYTES}.")
        try:
            self.push(self._take(size).decode("utf-8"))
        except UnicodeDecodeError:
            raise Refused("holds a text that is not valid UTF-8.") from None

    def push_global(self) -> None:
        name = f"{self._line()}.{self._line()}"
        known = GLOBALS.get(name)
        if known is None:
            raise Refused(f"names {name!r}, which a dict of tensors does not need. Nothing was imported or run.")
        self.push(known)

    def push_tuple(self, size: int) -> None:
        self._push_items([self._pop() for _ in range(size)][::-1])

    def push_marked_tuple(self) -> None:
        self._push_items(self._pop_marked())

    def _push_items(self, items: list[Any]) -> None:
        if len(items) > _MAX_TUPLE:
            raise Refused(f"holds a tuple of {len(items)} values; at most {_MAX_TUPLE} are needed.")
        if any(isinstance(part, tuple) for item in items if isinstance(item, tuple) for part in item):
            raise Refused("holds tuples within tuples within tuples.")
        self.push(tuple(items))

    def put(self, size: int) -> None:
        index = self._number(size)
        if not self._stack or self._stack[-1] is _MARK or len(self._memo) >= _MAX_MEMO:
            raise Refused("keeps a value that is not there, or too many.")
        self._memo[index] = self._stack[-1]

    def get(self, size: int) -> None:
        index = self._number(size)
        if index not in self._memo:
            raise Refused(f"asks for the value {index}, which it has not kept.")
        self.push(self._memo[index])

    def set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set(self._top_dict(), key, value)

    def set_items(self) -> None:
        items = self._pop_marked()
        if len(items) % 2:
            raise Refused("sets a name without a value.")
        target = self._top_dict()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._set(target, key, value)

    def _set(self, target: dict[str, Any], key: Any, value: Any) -> None:
        if not isinstance(key, str):
            raise Refused(f"has {_describe(key)} as a name; names are text.")
        if key in target:
            raise Refused(f"sets {short(key)} twice.")
        target[key] = value

    def reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, Call) or not isinstance(arguments, tuple):
            raise Refused(f"calls {_describe(function)}, which nothing here can be called.")
        self.push(call(function, arguments))

    def build(self) -> None:
        """The versions of modules that PyTorch hangs onto a state dict: an attribute without meaning here."""
        state = self._pop()
        self._top_dict()
        if not isinstance(state, dict) or set(state) != {"_metadata"} or not isinstance(state["_metadata"], dict):
            raise Refused("sets attributes of an object (BUILD) other than the _metadata of a state dict.")

    def push_storage(self) -> None:
        self.push(make_storage(self._pop()))

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise Refused("takes a value from an empty stack.")
        return self._stack.pop()

    def _pop_marked(self) -> list[Any]:
        for at in range(len(self._stack) - 1, -1, -1):
            if self._stack[at] is _MARK:
                items = self._stack[at + 1 :]
                del self._stack[at:]
                return items
        raise Refused("goes back to a mark that is not there.")

    def _top_dict(self) -> dict[str, Any]:
        if not self._stack or not isinstance(self._stack[-1], dict):
            raise Refused("fills something that is not a dict.")
        top: dict[str, Any] = self._stack[-1]
        return top

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > len(self._raw):
            raise Refused("ends too early.")
        return self._raw[begin : self._at]

    def _line(self) -> str:
        end = self._raw.find(b"\n", self._at, self._at + _MAX_GLOBAL_BYTES)
        if end < 0:
            raise Refused("names a global without an end.")
        return self._take(end + 1 - self._at)[:-1].decode("latin-1")


_ACTIONS: Final[dict[bytes, Callable[[_Machine], None]]] = {
    b"}": lambda machine: machine.push({}),
    b")": lambda machine: machine.push(()),
    b"N": lambda machine: machine.push(None),
    b"\x88": lambda machine: machine.push(True),
    b"\x89": lambda machine: machine.push(False),
    b"(": _Machine.push_mark,
    b"K": lambda machine: machine.push_integer(1),
    b"M": lambda machine: machine.push_integer(2),
    b"J": _Machine.push_signed,
    b"\x8a": _Machine.push_long,
    b"G": _Machine.push_float,
    b"X": _Machine.push_text,
    b"c": _Machine.push_global,
    b"t": _Machine.push_marked_tuple,
    b"\x85": lambda machine: machine.push_tuple(1),
    b"\x86": lambda machine: machine.push_tuple(2),
    b"\x87": lambda machine: machine.push_tuple(3),
    b"q": lambda machine: machine.put(1),
    b"r": lambda machine: machine.put(4),
    b"h": lambda machine: machine.get(1),
    b"j": lambda machine: machine.get(4),
    b"s": _Machine.set_item,
    b"u": _Machine.set_items,
    b"R": _Machine.reduce,
    b"b": _Machine.build,
    b"Q": _Machine.push_storage,
}
