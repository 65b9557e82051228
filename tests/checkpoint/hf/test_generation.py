"""Where a text ends: all sources are heard, each id once, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from pelton.checkpoint.contract import GenerationDefaults
from pelton.checkpoint.fields import Fields
from pelton.checkpoint.hf.generation import read_generation
from pelton.errors import CheckpointError

pytestmark = pytest.mark.unit


def read(
    generation: dict[str, Any], config: dict[str, Any], tokenizer: dict[str, Any] | None = None
) -> GenerationDefaults:
    return read_generation(Fields("generation", generation), [Fields("config", config)], tokenizer or {}, 100)


TOKENIZER = {"eos_token": "<end>", "added_tokens_decoder": {"7": {"content": "<end>"}, "8": {"content": "<pad>"}}}


@pytest.mark.parametrize(
    ("generation", "config", "tokenizer", "ends"),
    [
        ({}, {}, {}, ()),
        ({"eos_token_id": None}, {"eos_token_id": 0}, {}, (0,)),
        ({"eos_token_id": 3}, {"eos_token_id": [4, 3]}, {}, (3, 4)),
        ({"eos_token_id": [5, 3]}, {"eos_token_id": 3}, TOKENIZER, (5, 3, 7)),
        ({}, {}, {**TOKENIZER, "eos_token": {"content": "<end>"}}, (7,)),
        ({}, {}, {"eos_token": "<end>"}, ()),
        ({}, {}, {**TOKENIZER, "eos_token": None}, ()),
    ],
)
def test_all_sources_of_ends(generation: Any, config: Any, tokenizer: Any, ends: tuple[int, ...]) -> None:
    assert read(generation, config, tokenizer).eos_token_ids == ends


def test_sampling_defaults_come_from_generation_config_alone() -> None:
    given = {
        "temperature": 0.7,
        "top_p": 0.8,
        "top_k": 20,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "max_new_tokens": 9,
    }
    defaults = read({**given, "bos_token_id": 1}, {"temperature": 0.1, "bos_token_id": 2})
    assert {name: getattr(defaults, name) for name in given} == given
    assert defaults.bos_token_id == 1
    assert read({}, {"temperature": 0.1}) == GenerationDefaults()


def test_what_is_not_followed_is_named() -> None:
    given = {
        "temperature": 0.7,
        "no_repeat_ngram_size": 3,
        "num_beams": 1,
        "suppress_tokens": [],
        "transformers_version": "5",
    }
    defaults = read(given, {"length_penalty": 2.0})
    assert defaults.not_followed == ("no_repeat_ngram_size",)
    assert defaults == read({"temperature": 0.7}, {})  # what is not followed makes no other defaults


def test_do_sample_false_is_greedy() -> None:
    assert read({"do_sample": False, "temperature": 0.7}, {}).temperature == 0.0
    assert read({"do_sample": True, "temperature": 0.7}, {}).temperature == 0.7


@pytest.mark.parametrize("value", [100, -1, "3", 1.0, True, [1, 100]])
def test_ids_that_are_none_are_refused(value: Any) -> None:
    with pytest.raises(CheckpointError, match=r"config: eos_token_id is .*; expected ids from 0 to 99"):
        read({}, {"eos_token_id": value})
