"""What the compiler made of the kernels: registers that it put aside, and code that the linker might hand to others.

Reads the object files that the editable build leaves behind, with binutils. They are there on a developer's machine and
in continuous integration.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
# A vector register written to the stack frame; kernels have no arrays of their own there.
SPILL = re.compile(r"\tvmov\w+\s+%[yz]mm\d+,-?(0x[0-9a-f]+)?\(%rsp\)|\tvmov\w+\s+%[yz]mm\d+,-0x[0-9a-f]+\(%rbp\)")
NOISE = re.compile(r"pelton::|\(anonymous namespace\)::|^void |\((?!int|bool)[A-Z]\w*\)(?=\d)")
HOT = ("multiply_slab<", "multiply_wide<", "multiply_narrow<", "multiply_pairs<", "multiply_tile<", "score_", "sum_")


def find_objects() -> list[Path]:
    """Object files of the newest build of the installed module that were compiled for one instruction set."""
    builds = sorted(ROOT.glob("build/cp*/CMakeFiles/_native.dir"), key=lambda path: path.stat().st_mtime)
    if not builds:
        return []
    return sorted(path for suffix in ("avx2", "avx512") for path in builds[-1].rglob(f"*_{suffix}.cc.o"))


def run_tool(name: str, *arguments: str) -> list[str]:
    """The lines that one of the binutils prints."""
    program = shutil.which(name)
    assert program is not None, f"{name} was looked for before"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


def compiler_of(path: Path) -> str:
    """Its name and major version, for example "GCC 12"."""
    text = "\n".join(run_tool("strings", "-a", str(path)))
    match = re.search(r"GCC: \(.*?\) (\d+)\.", text)
    return f"GCC {match[1]}" if match else "another compiler"


def count_spills(lines: list[str]) -> Iterator[tuple[str, int]]:
    """(hot kernel, registers put aside), in disassembled `lines`."""
    name, count = "", 0
    for line in [*lines, "0 <>:"]:
        if found := FUNCTION.match(line):
            if any(hot in name for hot in HOT):
                yield re.sub(r"\((?:Slab|RowBlock|TileState|SplitGroups|unsigned|float|long).*\)$", "", name), count
            name, count = NOISE.sub("", found[1]), 0
        elif SPILL.search(line):
            count += 1


def spills_of(path: Path) -> dict[str, int]:
    """Of every hot kernel of an object file, by file and name."""
    lines = run_tool("objdump", "-d", "--no-show-raw-insn", "-C", str(path))
    file = path.name.removesuffix(".cc.o")
    return {f"{file}: {name}": count for name, count in count_spills(lines)}


def weak_functions(path: Path) -> list[str]:
    """Functions of which the linker keeps one copy among all files, whatever instruction set it was compiled for."""
    return [line for line in run_tool("nm", "-C", "--defined-only", str(path)) if re.match(r"\w+ W ", line)]
