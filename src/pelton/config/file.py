"""Reads `--config file.yaml`: any setting, nested under its section or flat, with - or _ in its name.

Invariant: a key means one setting or the file is refused: unknown keys, a setting given twice and wrong types are
errors that name the file and the key. YAML is read with the safe loader, which makes plain values only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from pelton.config.knob import check_value
from pelton.config.schema import SECTIONS, SETTINGS
from pelton.config.user_config import Asked, UserConfig, find_setting
from pelton.errors import ConfigError, nearest


class _StrictLoader(yaml.SafeLoader):
    """The safe loader, but a key that stands twice in one mapping is an error and not the last one's win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                mark = node.value[index][0].start_mark
                raise ConfigError(f"{self.name}: line {mark.line + 1}: {key!r} is given twice. Remove one.")
        return super().construct_mapping(node, deep)


def load_config_file(path: Path) -> UserConfig:
    """What the file asks for. ConfigError when it is missing, malformed or asks for the unknown. Reads the disk."""
    try:
        with path.open("rb") as stream:
            loader = _StrictLoader(stream)
            loader.name = str(path)
            content = loader.get_single_data()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}: not a YAML file: {reason}") from error
    if content is None:
        return UserConfig(MappingProxyType({}))
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: holds a {type(content).__name__}, expected 'name: value' lines.")
    asked: dict[str, Asked] = {}
    for key, value in _flatten(content, path):
        where = f"{path}: {key}"
        setting = find_setting(key.rpartition(".")[2], where=str(path))
        if setting.name in asked:
            raise ConfigError(f"{where}: already given as {asked[setting.name].where}. Remove one.")
        if "." in key and setting.section != key.partition(".")[0]:
            raise ConfigError(f"{where}: {setting.name} belongs to section {setting.section!r}.")
        if value is None or (setting.is_auto and value == "auto"):
            continue
        asked[setting.name] = Asked(check_value(setting, value, where=where), where)
    return UserConfig(MappingProxyType(asked))


def _flatten(content: dict[Any, Any], path: Path) -> Iterator[tuple[str, Any]]:
    """(dotted key, value) for each setting, whether it stands in a section or at the top."""
    for key, value in content.items():
        if not isinstance(key, str):
            raise ConfigError(f"{path}: key {key!r} is a {type(key).__name__}, expected a setting's name.")
        if not isinstance(value, dict):
            yield key, value
            continue
        if key not in SECTIONS:
            raise ConfigError(f"{path}: {key!r} is not a section. {nearest(key, [*SECTIONS, *SETTINGS])}")
        for name, inner in value.items():
            if not isinstance(name, str) or isinstance(inner, dict):
                raise ConfigError(f"{path}: {key}.{name}: expected 'name: value' with a plain value.")
            yield f"{key}.{name}", inner
