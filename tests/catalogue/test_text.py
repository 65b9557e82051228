"""Tokenizers, templates, end ids and sampling defaults that did not arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes import CHAT_TEMPLATE, TinyModel, tokenizer_json
from tests.inspection.models import change, found, inspect, pre_tokenizer, write
from tests.inspection.test_check_order import PAIRS, write_merges
from tests.model_files import llama_gguf, strings, text, u32
from transformers import GenerationConfig

from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.fields import Fields
from pelton.checkpoint.hf.generation import FOLLOWED, INERT, NEUTRAL, find_unfollowed, read_generation
from pelton.errors import CheckpointError, RequestError
from pelton.tokenization.chat import Chat
from pelton.tokenization.chat_template import TemplateWorker
from pelton.tokenization.make import make_tokenizer

pytestmark = pytest.mark.unit
CONVERSATION = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def set_tokenizer(directory: Path, **fields: Any) -> Path:
    (directory / "tokenizer.json").write_text(json.dumps({**tokenizer_json(), **fields}))
    return directory


@pytest.mark.parametrize("pre", [None, text(""), text("default"), text("qwen99")])
def test_a_gguf_that_does_not_say_how_words_are_cut_is_refused(tmp_path: Path, pre: bytes | None) -> None:
    """F1, F17: a default was taken, and digits and contractions had other ids for weeks."""
    (tmp_path / "x.gguf").write_bytes(llama_gguf(tokenizer__ggml__pre=pre))
    with (
        open_checkpoint(tmp_path / "x.gguf") as checkpoint,
        pytest.raises(CheckpointError, match=r"tokenizer\.ggml\.pre"),
    ):
        make_tokenizer(checkpoint.tokenizer_source)


@pytest.mark.parametrize("name", ["bos", "eos", "eot", "padding", "unknown"])
def test_an_id_beyond_the_vocabulary_is_refused(tmp_path: Path, name: str) -> None:
    """F4."""
    (tmp_path / "x.gguf").write_bytes(llama_gguf(**{f"tokenizer__ggml__{name}_token_id": u32(13)}))
    with (
        open_checkpoint(tmp_path / "x.gguf") as checkpoint,
        pytest.raises(CheckpointError, match=f"{name}_token_id is 13"),
    ):
        _ = (checkpoint.generation, checkpoint.tokenizer_source)
    directory = write(tmp_path / "hf")
    change(directory / "generation_config.json", {"eos_token_id": 259})
    with open_checkpoint(directory) as checkpoint, pytest.raises(CheckpointError, match="eos_token_id is 259"):
        _ = checkpoint.generation


def test_more_tokens_than_rows(tmp_path: Path) -> None:
    """F13, F14: the other way around, rows without a token, is sound and told."""
    (tmp_path / "x.gguf").write_bytes(llama_gguf(tokenizer__ggml__tokens=strings(list("abcdefghi"))))
    with open_checkpoint(tmp_path / "x.gguf") as checkpoint, pytest.raises(CheckpointError, match="9 tokens and embed"):
        _ = checkpoint.tokenizer_source
    added = [*tokenizer_json()["added_tokens"], {**tokenizer_json()["added_tokens"][0], "id": 259, "content": "<new>"}]
    assert "tokenizer.rows" in found(set_tokenizer(write(tmp_path / "hf"), added_tokens=added))

    def pad(tensors: dict) -> None:  # type: ignore[type-arg]
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            tensors[name] = np.resize(tensors[name], (300, 64))

    report = inspect(write(tmp_path / "padded", config={"vocab_size": 300}, tensors=pad))
    assert report.text.tokenizer["size"] == "259 tokens, 41 rows without one"


def test_special_tokens_are_one_id_inside_a_text(tmp_path: Path) -> None:
    """F9."""
    added = tokenizer_json()["added_tokens"]
    added[2]["single_word"] = True
    assert "tokenizer.special" in found(set_tokenizer(write(tmp_path), added_tokens=added))


def test_a_mistral_tokenizer_with_the_pattern_of_llama(tmp_path: Path) -> None:
    """F7."""
    set_tokenizer(write(tmp_path, "MistralForCausalLM"), pre_tokenizer=pre_tokenizer("llama-bpe"))
    assert "tokenizer.regex" in found(tmp_path)


def test_two_entries_of_a_vocabulary_that_were_exchanged(tmp_path: Path) -> None:
    """N12."""
    write(tmp_path)
    order = list(range(len(PAIRS)))
    write_merges(tmp_path, order)
    assert "tokenizer.order" not in found(tmp_path)
    order[30], order[200] = order[200], order[30]
    write_merges(tmp_path, order)
    assert "tokenizer.order" in found(tmp_path)


def test_an_export_without_merges_or_template_is_told(tmp_path: Path) -> None:
    """F17: a writer that leaves out merges, pre-tokenizer and template."""
    (tmp_path / "x.gguf").write_bytes(llama_gguf(tokenizer__ggml__merges=None, tokenizer__ggml__pre=None))
    report = inspect(tmp_path / "x.gguf")
    assert any("tokenizer.ggml" in why for why in report.refusals)


ENDS = {"absent": None, "one": 7, "several": [7, 8]}


@pytest.mark.parametrize("in_tokenizer", [False, True])
@pytest.mark.parametrize("in_config", ENDS)
@pytest.mark.parametrize("in_generation", ENDS)
def test_a_text_ends_at_what_any_source_names(in_generation: str, in_config: str, in_tokenizer: bool) -> None:
    """G2, G9: which source wins depended on the program; here none loses."""
    generation = {} if in_generation == "absent" else {"eos_token_id": ENDS[in_generation]}
    config = {} if in_config == "absent" else {"eos_token_id": [3] if in_config == "one" else [3, 4]}
    tokenizer = {"eos_token": "</s>", "added_tokens_decoder": {"5": {"content": "</s>"}}} if in_tokenizer else {}
    read = read_generation(Fields("g", generation), [Fields("c", config)], tokenizer, 10)
    expected = [*{"absent": (), "one": (7,), "several": (7, 8)}[in_generation]]
    expected += {"absent": (), "one": (3,), "several": (3, 4)}[in_config]
    assert read.eos_token_ids == (*expected, *((5,) if in_tokenizer else ()))


@pytest.mark.parametrize("adds_bos", [False, True])
@pytest.mark.parametrize("writes_bos", [False, True])
def test_a_conversation_begins_with_bos_as_often_as_its_template_says(
    tmp_path: Path, adds_bos: bool, writes_bos: bool
) -> None:
    """G3: BOS of the template, and BOS of the tokenizer before it."""
    write(tmp_path)
    template = ("{{ bos_token }}" if writes_bos else "") + CHAT_TEMPLATE
    change(tmp_path / "tokenizer_config.json", {"bos_token": "<|endoftext|>", "add_bos_token": adds_bos})
    with open_checkpoint(tmp_path) as checkpoint, TemplateWorker() as worker:
        tokenizer = make_tokenizer(checkpoint.tokenizer_source)
        ids = Chat(tokenizer, worker, template).make_prompt(CONVERSATION).token_ids
        assert tokenizer.encode("x")[:1] == ([256] if adds_bos else [120])
    assert ids.count(256) == (1 if writes_bos else 0)


def test_every_field_of_generation_config_is_applied_inert_or_told(tmp_path: Path) -> None:
    """G4 to G6: a list of known keys dropped the others; each key of transformers' class is on one list or reported."""
    write(tmp_path)
    values = {"temperature": 0.6, "top_k": 7, "top_p": 0.5, "min_p": 0.05, "repetition_penalty": 1.1}
    told = {"presence_penalty": 0.5, "no_repeat_ngram_size": 3, "typical_p": 0.9, "min_new_tokens": 2}
    change(tmp_path / "generation_config.json", {**values, **told})
    report = inspect(tmp_path)
    assert report.generation.startswith("temperature 0.6, top_p 0.5, top_k 7, min_p 0.05, repetition_penalty 1.1")
    (finding,) = [finding for finding in report.findings if finding.id == "generation.not-applied"]
    assert all(name in finding.sentence for name in told)
    for name in GenerationConfig().to_dict():
        strange = {name: "strange"}
        assert name in FOLLOWED | INERT or find_unfollowed(strange) == strange, name
    assert not FOLLOWED & set(NEUTRAL)


def test_defaults_of_transformers_are_not_suspected() -> None:
    """G4."""
    assert find_unfollowed(GenerationConfig().to_dict()) == {}


def test_a_penalty_that_nobody_asked_for_is_told(tmp_path: Path) -> None:
    """G8: it changed the likeliest token, and with it evaluations."""
    write(tmp_path)
    assert "generation.argmax" not in found(tmp_path)
    change(tmp_path / "generation_config.json", {"repetition_penalty": 1.05})
    assert "generation.argmax" in found(tmp_path)


PLACES = ["chat_template.jinja", "tokenizer_config.json", "chat_template.json", "named"]


@pytest.mark.parametrize("place", PLACES)
def test_a_template_is_found_in_each_of_its_places(tmp_path: Path, place: str) -> None:
    """H1, H4: written beside the tokenizer's configuration, it was not picked up."""
    TinyModel().write(tmp_path)
    change(tmp_path / "tokenizer_config.json", {"chat_template": None})
    template = CHAT_TEMPLATE + "!"
    if place == "chat_template.jinja":
        (tmp_path / place).write_text(template)
    elif place == "named":
        named = [{"name": "default", "template": template}]
        change(tmp_path / "tokenizer_config.json", {"chat_template": named})
    else:
        change(tmp_path / place, {"chat_template": template})
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.tokenizer_source.chat_template == template
    (found_at,) = inspect(tmp_path).text.templates
    assert found_at.partition(":")[0] == (place if place != "named" else "tokenizer_config.json")


def test_two_templates_that_differ_are_told(tmp_path: Path) -> None:
    """H1, H6: the one that was trained with is not the one that is exported."""
    (write(tmp_path) / "chat_template.jinja").write_text(CHAT_TEMPLATE + " ")
    assert "template.differ" in found(tmp_path)


def test_no_template_is_no_chatml() -> None:
    """H3: an unknown template became ChatML in silence."""
    with TemplateWorker() as worker, pytest.raises(RequestError, match="this model has no chat template"):
        worker.render(None, CONVERSATION)


# Expressions whose meaning differs in the small Jinjas of other programs.
DIALECT = {
    "{{ messages | map(attribute='role') | join(',') }}": "user,assistant",
    "{{ messages[1:][0].role }}": "assistant",
    "{{ messages[-1]['content'] }}": "b",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}": "2",
    "{{ {'a': '<é>'} | tojson }}": '{"a": "<é>"}',
    "{{ [1, 2] | tojson(indent=1) }}": "[\n 1,\n 2\n]",
    "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% endfor %}": "assistant",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}": "1",
    "{{ 'x' if messages is defined and tools is none else 'y' }}": "x",
    "{{ messages[0].content is string }}": "True",
    "{{ '  a ' | trim }}|{{ 'a-b'.split('-')[1] }}": "a|b",
    "{% macro f(x) -%} [{{ x }}] {%- endmacro %}{{ f(1) }}": "[1]",
    "{{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='content') | first }}": "b",
    "{% for k, v in messages[0].items() %}{{ k }}{% endfor %}": "rolecontent",
    "a\n{% if true %}\nb\n{% endif %}\nc": "a\nb\nc",
    "{{ 'abc' | replace('b', '') | upper }}": "AC",
    "{{ messages[0].content.startswith('a') and not messages[0].nothing }}": "True",
}


def test_the_dialect_of_templates_is_whole() -> None:
    """H5: filters, slices, namespaces and tojson were missing or different."""
    with TemplateWorker() as worker:
        rendered = {template: worker.render(template, CONVERSATION, None, False) for template in DIALECT}
    assert rendered == DIALECT


def test_what_a_template_may_be_told() -> None:
    """H7: tools, variables, an open answer."""
    template = (
        "{{ tools | length if tools else 0 }}{{ enable_thinking }}{% for m in messages %}{{ m.content }};{% endfor %}"
    )
    with TemplateWorker() as worker:
        tools = [{"type": "function", "function": {"name": "f"}}]
        with_tools = worker.render(template, CONVERSATION, tools, variables={"enable_thinking": False})
        open_answer = worker.render(template, CONVERSATION, None, False, True, variables={"enable_thinking": 1})
    assert (with_tools, open_answer) == ("1Falsea;b;", "01a;b")
