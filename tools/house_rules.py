"""The rules of this house that no other checker knows, each a small function: `python tools/house_rules.py`.

Invariant: a rule looks at one file, or at the tree, and yields findings; it never changes anything and never looks at
another rule. A ceiling is raised by a decision, not by an exception in here. Reads the source; runs none of it but
the table of settings, whose size has a ceiling too. A second or so for the whole tree.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

MAX_FILE_LINES: Final = 400
MAX_FUNCTION_LINES: Final = 60
MAX_POSITIONAL: Final = 7
MAX_DOCSTRING_LINES: Final = 12
MAX_SETTINGS: Final = 64  # flags of `serve`, keys of the file
MAX_FLAGS: Final = 96  # of the other commands
MAX_VARIABLES: Final = 12

# Where `except Exception` may stand: HTTP, before and after an answer has begun, and the engine
# process. Each logs once, with the request id, and turns what it caught into an InternalError.
BORDERS: Final = frozenset(
    {
        "src/pelton/server/border.py",
        "src/pelton/server/event_stream.py",
        "src/pelton/engine/process.py",
    }
)
ENVIRONMENT_FILE: Final = "src/pelton/config/env.py"
NATIVE_FOLDER: Final = "src/pelton/backends/cpu/"

# Sources that need no test file of their own, by folder or file: what covers them instead.
COVERED_ELSEWHERE: Final = {
    "src/pelton/plan/ops/": "tests/conformance, generated from the op registry",
    "src/pelton/models/": "tests/models/test_parity.py",
    "src/pelton/backends/executable.py": "a contract",
    "src/pelton/checkpoint/contract.py": "a contract",
    "src/pelton/checkpoint/model_spec.py": "a contract",
    "src/pelton/engine/executor.py": "a contract",
    "src/pelton/engine/client.py": "a contract",
    "src/pelton/api/parts.py": "a contract",
}

FORBIDDEN_WORDS: Final = frozenset({"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"})
FORBIDDEN_NAMES: Final = re.compile(r"(cfg|req|reqs|fi|attn_md|idx|n_[a-z]\w*|\w+_(idx|cnt))")
FORBIDDEN_MODULES: Final = frozenset({"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"})
FORBIDDEN_CALLS: Final = frozenset({"eval", "exec", "__import__"})
TODO: Final = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\): \S)")
BANNER: Final = re.compile(r"^\s*(#|//)\s*[-=*#~]{4,}")
MACHINE_PATH: Final = re.compile(r"(?<![\w.:/~-])/(?:work|root|tmp)\b(?!\.)")
REGISTRY_HOST: Final = re.compile(
    r"\b(?:pypi\.\w+|pythonhosted\.org|npmjs\.\w+|crates\.io|rubygems\.org|anaconda\.org)\b"
)
TEXT_SUFFIXES: Final = frozenset(
    {"", ".py", ".cc", ".h", ".md", ".toml", ".txt", ".yaml", ".yml", ".json", ".sh", ".jinja"}
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """Something that must change."""

    path: str
    line: int
    message: str


@dataclass(frozen=True)
class Source:
    """One text file of the project; `path` is relative to its root, with forward slashes."""

    path: str
    text: str

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_native(self) -> bool:
        return self.path.endswith((".cc", ".h"))

    @property
    def is_product(self) -> bool:
        return self.path.startswith("src/")

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of a Python file."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of a Python file; none of any other."""
        return tuple(ast.walk(self.tree)) if self.is_python else ()

    @property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function)]

    def finding(self, line: int, message: str) -> Finding:
        """A finding in this file."""
        return Finding(self.path, line, message)


def file_size(source: Source) -> Iterator[Finding]:
    """Code files have at most MAX_FILE_LINES lines."""
    count = source.text.count("\n")
    if (source.is_python or source.is_native) and count > MAX_FILE_LINES:
        yield source.finding(count, f"{count} lines, at most {MAX_FILE_LINES} are allowed; split it by concept")


def function_size(source: Source) -> Iterator[Finding]:
    """Functions fit on a screen and take few positional parameters."""
    for function in source.functions:
        count = (function.end_lineno or function.lineno) - function.lineno + 1
        if count > MAX_FUNCTION_LINES:
            yield source.finding(function.lineno, f"{function.name} has {count} lines, at most {MAX_FUNCTION_LINES}")
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args) if a.arg not in ("self", "cls")]
        if len(names) > MAX_POSITIONAL:
            message = f"{function.name} takes {len(names)} positional parameters, at most {MAX_POSITIONAL}"
            yield source.finding(function.lineno, message)


def module_docstring(source: Source) -> Iterator[Finding]:
    """A module of the product or of the tools begins with its idea, in a few lines."""
    if not source.is_python or source.is_test:
        return
    text = ast.get_docstring(source.tree)
    if not text:
        yield source.finding(1, "has no module docstring: idea, invariant, where it runs, cost, source")
    elif source.path != "src/pelton/errors.py" and text.count("\n") + 1 > MAX_DOCSTRING_LINES:
        yield source.finding(1, f"module docstring has {text.count(chr(10)) + 1} lines, at most {MAX_DOCSTRING_LINES}")


def forbidden_file_name(source: Source) -> Iterator[Finding]:
    """Files and folders are named after a concept."""
    if source.path.startswith(("src/", "csrc/", "tools/", "tests/")):
        words = set(re.split(r"[/_.]", source.path))
        for word in sorted(words & FORBIDDEN_WORDS):
            yield source.finding(1, f"{word!r} names no concept; name the file after what is in it")


def forbidden_name(source: Source) -> Iterator[Finding]:
    """Names are words, and counts are called num_x."""
    if not source.is_product:
        return
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            words = {word.lower() for word in re.findall(r"[A-Z][a-z]*", node.name)}
            if words & (FORBIDDEN_WORDS | {"handler", "controller"}):
                yield source.finding(node.lineno, f"class {node.name}: name what it is, not that it handles things")
        name = _defined_name(node)
        if name and FORBIDDEN_NAMES.fullmatch(name.lstrip("_")):
            yield source.finding(node.lineno, f"{name!r} is abbreviated; see the names in CONTRIBUTING.md")  # type: ignore[attr-defined]


def _defined_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else node.name if isinstance(node, Function) else None


def no_hasattr(source: Source) -> Iterator[Finding]:
    """Types say what a value has."""
    for node in source.nodes:
        if isinstance(node, ast.Name) and node.id == "hasattr":
            yield source.finding(node.lineno, "hasattr: let the type say it, or use a protocol")


def no_print_style_raise(source: Source) -> Iterator[Finding]:
    """A message is one text with its values inside."""
    raised = [node.exc for node in source.nodes if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    for call in raised:
        name = ast.unparse(call.func).rpartition(".")[2]
        if name[:1].isupper() and len(call.args) > 1:  # a class; functions that make errors take what they need
            first = call.args[0]
            if isinstance(first, ast.JoinedStr) or (isinstance(first, ast.Constant) and isinstance(first.value, str)):
                yield source.finding(call.lineno, "put the value inside the message with an f-string")


def environment_in_one_file(source: Source) -> Iterator[Finding]:
    """Environment variables are read in one place."""
    if not source.is_product or source.path == ENVIRONMENT_FILE:
        return
    for node in source.nodes:
        is_attribute = isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv")
        if is_attribute or (isinstance(node, ast.ImportFrom) and {a.name for a in node.names} & {"environ", "getenv"}):
            yield source.finding(node.lineno, f"the environment is read in {ENVIRONMENT_FILE} only")  # type: ignore[attr-defined]


def native_in_one_folder(source: Source) -> Iterator[Finding]:
    """The native module is the CPU backend's alone. (It is no Python file, so import-linter does not see it.)"""
    if not source.is_product or source.path.startswith(NATIVE_FOLDER):
        return
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {part for a in node.names for part in a.name.split(".")} | set(
                (getattr(node, "module", "") or "").split(".")
            )
            if "_native" in names:
                yield source.finding(node.lineno, f"the native module is imported in {NATIVE_FOLDER} only")


def no_code_from_data(source: Source) -> Iterator[Finding]:
    """Data never becomes code."""
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for module in modules:
                if module.split(".")[0] in FORBIDDEN_MODULES:
                    yield source.finding(node.lineno, f"{module}: reading it runs code; use msgpack or JSON")
        elif isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name in FORBIDDEN_CALLS or any(k.arg == "allow_pickle" for k in node.keywords if not _is_false(k.value)):
                yield source.finding(node.lineno, f"{name or 'allow_pickle'} turns data into code")


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def no_broad_except(source: Source) -> Iterator[Finding]:
    """Only the borders catch everything; elsewhere a handler that ends with a bare raise may clean up."""
    if not source.is_product or source.path in BORDERS:
        return
    for node in source.nodes:
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        names = {c.id if isinstance(c, ast.Name) else "" if c else "everything" for c in caught}
        last = node.body[-1]
        is_passed_on = isinstance(last, ast.Raise) and last.exc is None
        if names & {"Exception", "BaseException", "everything"} and not is_passed_on:
            yield source.finding(node.lineno, "catches everything; name the errors, or let them reach a border")


def todo_form(source: Source) -> Iterator[Finding]:
    """Work to do has an issue."""
    if source.path == "tools/house_rules.py":
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        if (source.is_python or source.is_native) and (match := TODO.search(line)):
            yield source.finding(number, f"{match[1]}: write 'TODO(#123): reason'")


def no_banner(source: Source) -> Iterator[Finding]:
    """Files have no decoration."""
    if source.is_python or source.is_native:
        for number, line in enumerate(source.text.splitlines(), 1):
            if BANNER.match(line):
                yield source.finding(number, "a banner; make a function or a file of what it announces")


def ascii_only(source: Source) -> Iterator[Finding]:
    """Sources are ASCII."""
    if source.path.startswith(("src/", "csrc/", "tools/")) and not source.text.isascii():
        for number, line in enumerate(source.text.splitlines(), 1):
            if not line.isascii():
                character = next(c for c in line if not c.isascii())
                yield source.finding(number, f"U+{ord(character):04X} is not ASCII; write it as an escape")


def no_machine_in_text(source: Source) -> Iterator[Finding]:
    """The project speaks of itself, not of somebody's machine."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if match := MACHINE_PATH.search(line) or REGISTRY_HOST.search(line):
            yield source.finding(number, f"{match[0]!r} belongs to one machine or service; leave it out")


def mirrored_tests(sources: list[Source]) -> Iterator[Finding]:
    """src/pelton/a/b.py with code in it has tests/a/test_b.py."""
    paths = {source.path for source in sources}
    for source in sources:
        path = Path(source.path)
        is_covered = any(source.path.startswith(prefix) for prefix in COVERED_ELSEWHERE)
        if not (source.is_product and source.is_python and source.functions) or is_covered or path.stem == "__init__":
            continue
        wanted = Path("tests", *path.parts[2:-1], f"test_{path.name}").as_posix()
        if wanted not in paths:
            yield source.finding(1, f"has no {wanted}")


def settings_are_read(sources: list[Source]) -> Iterator[Finding]:
    """A setting that nothing reads would be ignored in silence."""
    from pelton.config.schema import SETTINGS  # noqa: PLC0415  the tree under test, once it is on the path

    outside = [s for s in sources if s.is_product and not s.path.startswith("src/pelton/config/")]
    words = {node.attr for s in outside for node in s.nodes if isinstance(node, ast.Attribute)}
    words |= {n.value for s in outside for n in s.nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    for name in sorted(SETTINGS.keys() - words):
        yield Finding("src/pelton/config/schema.py", 1, f"nothing reads the setting {name}")


def ceilings(sources: list[Source]) -> Iterator[Finding]:
    """Flags and environment variables are few: to add one above the ceiling, remove one."""
    from pelton.config.env import VARIABLES  # noqa: PLC0415  the tree under test, once it is on the path
    from pelton.config.schema import SETTINGS  # noqa: PLC0415

    settings = {s.flag for s in SETTINGS.values() if not (s.knob.is_positional or s.knob.is_derived)}
    flags: set[str] = set()
    for source in sources:
        if source.path.startswith(("src/pelton/cli/", "src/pelton/bench/")):
            flags |= set(_find_click_flags(source))
    if len(settings) > MAX_SETTINGS:
        yield Finding("src/pelton/config/schema.py", 1, f"{len(settings)} settings, at most {MAX_SETTINGS}")
    if len(flags - settings) > MAX_FLAGS:
        found = sorted(flags - settings)
        yield Finding("src/pelton/cli/options.py", 1, f"{len(found)} flags of commands, at most {MAX_FLAGS}: {found}")
    if len(VARIABLES) > MAX_VARIABLES:
        yield Finding(ENVIRONMENT_FILE, 1, f"{len(VARIABLES)} environment variables, at most {MAX_VARIABLES}")


def _find_click_flags(source: Source) -> Iterator[str]:
    """The long names in calls of click.option and click.Option."""
    for node in source.nodes:
        is_option = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if is_option and node.func.attr in ("option", "Option"):  # type: ignore[attr-defined]
            for inner in ast.walk(node):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and inner.value.startswith("--"):
                    yield inner.value.split("/")[0]


FILE_RULES: Final[tuple[Callable[[Source], Iterator[Finding]], ...]] = (
    file_size,
    function_size,
    module_docstring,
    forbidden_file_name,
    forbidden_name,
    no_hasattr,
    no_print_style_raise,
    environment_in_one_file,
    native_in_one_folder,
    no_code_from_data,
    no_broad_except,
    todo_form,
    no_banner,
    ascii_only,
    no_machine_in_text,
)
TREE_RULES: Final[tuple[Callable[[list[Source]], Iterator[Finding]], ...]] = (
    mirrored_tests,
    settings_are_read,
    ceilings,
)


def check(sources: list[Source]) -> list[Finding]:
    """All findings of all rules, by file and line."""
    found = [finding for rule in FILE_RULES for source in sources for finding in rule(source)]
    return sorted(found + [finding for rule in TREE_RULES for finding in rule(sources)])


def load_sources(root: Path) -> list[Source]:
    """The text files that belong to the project: tracked ones, and ones that would be."""
    texts = [path for path in _list_files(root) if Path(path).suffix in TEXT_SUFFIXES]
    return [Source(path, (root / path).read_text(encoding="utf-8")) for path in texts]


def _list_files(root: Path) -> list[str]:
    if not (root / ".git").exists():  # an unpacked archive: all there is, but what a build leaves behind
        files = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
        return sorted(
            p.as_posix() for p in files if p.parts[0] not in ("build", "dist", ".venv") and "__pycache__" not in p.parts
        )
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    return sorted({path for path in listing.split("\0") if path and (root / path).is_file()})


def main() -> int:
    """Print findings; 1 if there are any."""
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root / "src"))
    findings = check(load_sources(root))
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.message}")
    print(f"house rules: {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
