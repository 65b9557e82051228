"""What a user means by MODEL, as a path that exists.

In this order: a folder or file that exists, a name of the catalog, a repository of the Hugging Face hub ("owner/name",
or "owner/name/file.gguf" for one file of it). Anything else is an error that names what comes near. Downloads go to
the cache of Pelton (catalog) or of `huggingface_hub`, which are used without network when they hold the model.
"""

import difflib
import re
from pathlib import Path

from pelton.checkpoint.hub.catalog import catalog_names, find_model
from pelton.checkpoint.hub.wheels import pull
from pelton.config.env import get_environment
from pelton.errors import ConfigError, TransferError, nearest

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REPOSITORY_FILE = re.compile(rf"({_REPOSITORY.pattern})/([\w./-]+\.gguf)")
_SHARD = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
_SUFFIXES = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".onnx")
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_PYTORCH = ["pytorch_model*.bin"]  # only where there are no safetensors: most repositories have both
_UNWANTED = ["original/*", "onnx/*", "openvino/*", "*.msgpack", "*.h5"]


def resolve_model(text: str, *, cache_dir: Path | None = None, show_progress: bool = True) -> Path:
    """The folder or `.gguf` file of a model, downloaded if need be. Raises ConfigError or TransferError."""
    path = Path(text).expanduser()
    if path.exists():
        return _check_kind(path)
    if find_model(text) is not None:
        return pull(text, cache_dir=cache_dir, show_progress=show_progress)
    file = _REPOSITORY_FILE.fullmatch(text)
    if file is not None and not path.parent.exists():
        return _fetch_file(file[1], file[2])
    if _REPOSITORY.fullmatch(text) and path.suffix != ".gguf" and not path.parent.exists():
        return _fetch_repository(text)
    raise ConfigError(_describe_missing(text, path))


def _check_kind(path: Path) -> Path:
    if path.is_dir() or path.suffix in _SUFFIXES:
        return path
    raise ConfigError(
        f"{path}: expected a folder with config.json, a .gguf file, or weights ({', '.join(_SUFFIXES[1:])}) beside a "
        "config.json."
    )


def _describe_missing(text: str, path: Path) -> str:
    if "/" not in text and path.suffix != ".gguf":
        return (
            f"model {text!r} is neither a file nor a name of the catalog. {nearest(text, catalog_names())} "
            "A Hugging Face model is written owner/name."
        )
    folder = path.parent
    if not folder.is_dir():
        return f"{path}: no such file, and no folder {folder}. A Hugging Face model is written owner/name."
    near = difflib.get_close_matches(path.name, [entry.name for entry in folder.iterdir()], n=3, cutoff=0.5)
    models = sorted(entry.name for entry in folder.glob("*.gguf"))[:5]
    names = near or models
    hint = f"Did you mean {' or '.join(names)}?" if names else f"There is no model in {folder.absolute()}."
    return f"{path}: no such file. {hint}"


def _fetch_repository(repository: str) -> Path:
    folder = _download(repository, _WANTED)
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{repository}: has no config.json. If it holds .gguf files, name one of them: {repository}/FILE.gguf."
        )
    if not any(folder.glob("*.safetensors")):
        return _download(repository, [*_WANTED, *_PYTORCH])
    return folder


def _fetch_file(repository: str, name: str) -> Path:
    path = _download(repository, [_SHARD.sub(r"-*-of-\1.gguf", name)]) / name
    if not path.is_file():
        raise ConfigError(f"{repository}: has no file {name}.")
    return path


def _download(repository: str, patterns: list[str]) -> Path:
    """The folder of the repository's files that match, from the hub or its cache."""
    from huggingface_hub import errors, snapshot_download  # noqa: PLC0415

    is_offline = get_environment().is_offline
    try:
        folder = snapshot_download(
            repository, allow_patterns=patterns, ignore_patterns=_UNWANTED, local_files_only=is_offline
        )
    except errors.GatedRepoError as error:
        raise ConfigError(
            f"{repository}: its owner asks for your agreement. Accept it on the model's page, then run `hf auth login`."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ConfigError(f"{repository}: no such repository on the Hugging Face hub, or it is private.") from error
    except (errors.HFValidationError, errors.RevisionNotFoundError) as error:
        raise ConfigError(f"{repository}: not a repository of the Hugging Face hub: {error}.") from error
    except errors.LocalEntryNotFoundError as error:
        why = "PELTON_OFFLINE forbids downloads" if is_offline else "the Hugging Face hub cannot be reached"
        raise TransferError(
            f"{repository}: not in the local cache, and {why}. Give the path of a model, or one of the catalog: "
            f"{', '.join(catalog_names())}."
        ) from error
    except (OSError, errors.HTTPError) as error:  # type: ignore[attr-defined]  # the client's own root of errors
        raise TransferError(f"{repository}: the download failed: {error}. Run it again to go on.") from error
    return Path(folder)
