"""Where a model comes from: a path, a name of the catalog, or a repository of the Hugging Face hub."""

from pelton.checkpoint.hub.catalog import CatalogModel, list_models
from pelton.checkpoint.hub.locate import resolve_model
from pelton.checkpoint.hub.wheels import pull, where

__all__ = ["CatalogModel", "list_models", "pull", "resolve_model", "where"]
