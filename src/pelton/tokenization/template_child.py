"""The process that renders chat templates: a small Python with jinja2 and nothing of the engine.

A template comes with a model, so it is a stranger's program. It runs in jinja2's immutable sandbox, and because the
sandbox bounds neither time nor memory, here, behind limits of the kernel; whoever started this process kills it when
it takes too long. Run as a script with a socket's file descriptor; one request and one answer at a time, each a
4-byte length and JSON. Dialect: that of Hugging Face (loop controls, `generation` blocks, `raise_exception`,
`strftime_now`, `tojson` without HTML escapes).
"""

import ctypes
import datetime
import json
import resource
import signal
import socket
import struct
import sys
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import ext, nodes, sandbox
from jinja2.parser import Parser

LENGTH = struct.Struct(">I")
MAX_OUTPUT_CHARS = 16 << 20
_MAX_CPU_S = 10
_PR_SET_PDEATHSIG = 1
_TEMPLATE_ERRORS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


class GenerationTag(ext.Extension):
    """`{% generation %}` marks the model's own words for training; here its body is rendered like any other."""

    tags = {"generation"}  # noqa: RUF012  jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        """The body of the block, in a scope of its own."""
        line = next(parser.stream).lineno
        return nodes.Scope(list(parser.parse_statements(("name:endgeneration",), drop_needle=True)), lineno=line)


def raise_exception(message: str) -> NoReturn:
    """What templates call to refuse a conversation."""
    raise jinja2.TemplateError(message)


def strftime_now(pattern: str) -> str:
    """The local time, for templates that tell the model the date."""
    return datetime.datetime.now().strftime(pattern)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models were trained on it: no escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment() -> jinja2.Environment:
    """The dialect that templates are written for."""
    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


def answer(request: dict[str, Any], compiled: Any) -> dict[str, Any]:
    """Render one request; what a template does wrong becomes an answer with `error` and, where known, `line`."""
    try:
        text = compiled(request["template"]).render(request["variables"])
    except jinja2.TemplateSyntaxError as error:
        return {"error": str(error.message), "line": error.lineno}
    except _TEMPLATE_ERRORS as error:
        message = str(error) if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {error}"
        return {"error": message, "line": find_line(error)}
    if len(text) > MAX_OUTPUT_CHARS:
        return {"error": f"the rendered text has {len(text)} characters; at most {MAX_OUTPUT_CHARS} are allowed"}
    return {"text": text}


def find_line(error: BaseException) -> int | None:
    """The line of the template in which `error` was raised."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def limit_process(max_bytes: int) -> None:
    """Bound this process: memory, no files written, no core."""
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def belong_to_parent() -> None:
    """End when the thread that started this process ends, whatever it is doing then, and not at a signal to both."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the server drains, and renders what it has taken
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def allow_cpu_time() -> None:
    """Let the next render use a few seconds of processor time, should nobody be left to kill it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(usage.ru_utime + usage.ru_stime) + _MAX_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def receive(peer: socket.socket, num_bytes: int) -> bytes:
    """Exactly `num_bytes`, or empty when the other side is gone."""
    received = bytearray()
    while len(received) < num_bytes:
        part = peer.recv(min(num_bytes - len(received), 1 << 20))
        if not part:
            return b""
        received += part
    return bytes(received)


def main(descriptor: int, max_bytes: int) -> None:
    """Answer requests until the other side closes the socket."""
    belong_to_parent()
    environment = make_environment()
    compiled = lru_cache(maxsize=8)(environment.from_string)
    limit_process(max_bytes)
    with socket.socket(fileno=descriptor) as peer:
        while header := receive(peer, LENGTH.size):
            body = receive(peer, LENGTH.unpack(header)[0])
            allow_cpu_time()
            reply = json.dumps(answer(json.loads(body), compiled)).encode()
            peer.sendall(LENGTH.pack(len(reply)) + reply)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
