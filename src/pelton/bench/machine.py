"""Where a measurement was made: the machine, and the state of the code. Read from the system; measures nothing."""

from __future__ import annotations

import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pelton import __version__
from pelton.config.hardware import Hardware, probe_hardware

HERE = Path(__file__).parent
GIT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a reader of the result needs to know of the machine."""

    cpu_name: str
    num_cores: int
    num_cpus: int
    memory_bytes: int
    isa: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def get_machine(hardware: Hardware | None = None) -> Machine:
    """This machine as far as this process may use it."""
    hardware = hardware or probe_hardware()
    return Machine(
        cpu_name=hardware.cpu_name,
        num_cores=hardware.num_cores,
        num_cpus=hardware.num_cpus,
        memory_bytes=hardware.total_memory_bytes,
        isa=hardware.isa,
    )


def get_commit(folder: Path = HERE) -> str:
    """The commit that this code comes from, "-dirty" if it was changed; the version where there is no repository.

    A repository around an installed copy is somebody else's: the code counts as ours only if git tracks this file.
    """
    if run_git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return __version__
    return run_git(folder, "describe", "--always", "--dirty") or __version__


def run_git(folder: Path, *arguments: str) -> str | None:
    """What git prints in `folder`; None if it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
