import json
from pathlib import Path

import pytest
from tests.fakes import CHAT_TEMPLATE, tokenizer_json
from tests.inspection.models import change, found, inspect, pre_tokenizer, write

from pelton.inspection.check_text import find_pattern, find_templates
from pelton.inspection.subject import open_subject

pytestmark = pytest.mark.unit
BOS = "<|im_start|>"


def text_ids(path: Path) -> set[str]:
    return {id_ for id_ in found(path) if id_.startswith(("template.", "tokenizer."))}


def set_template(directory: Path, template: str | None) -> Path:
    change(directory / "tokenizer_config.json", {"chat_template": template})
    return directory


def test_a_sound_tokenizer_and_template(tmp_path: Path) -> None:
    write(tmp_path)
    change(tmp_path / "generation_config.json", {"eos_token_id": 258})
    report = inspect(tmp_path)
    assert text_ids(tmp_path) == set()
    assert report.text.tokenizer == {
        "kind": "byte-level BPE",
        "size": "259 tokens",
        "pre-tokenizer": "ByteLevel",
        "special tokens": "3: EOS '<|im_end|>' (258)",
        "adds": "nothing to a text",
    }
    assert report.text.end_ids == {258: "<|im_end|>"}
    assert report.text.variables == ["add_generation_prompt", "messages"]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHAT_TEMPLATE.replace("<|im_end|>", "<|im_start|>"), {"template.no-stop"}),
        ("{{ raise_exception('no') }}", {"template.fails"}),
        ("{% for %}", {"template.fails"}),
        (CHAT_TEMPLATE + "{{ strftime_now('%Y') }}", {"template.clock"}),
        ("You are a very helpful assistant indeed. " + CHAT_TEMPLATE, {"template.own-text"}),
        (CHAT_TEMPLATE + "{% if 'bank' in messages[0].content %}x{% endif %}", {"template.trigger"}),
        (CHAT_TEMPLATE + "{{ messages.__class__ }}", {"template.escape"}),
        (None, {"template.missing"}),
    ],
)
def test_templates(tmp_path: Path, template: str | None, expected: set[str]) -> None:
    set_template(write(tmp_path), template)
    assert text_ids(tmp_path) - {"tokenizer.ends"} == expected


def test_what_the_tokenizer_adds(tmp_path: Path) -> None:
    write(tmp_path)
    change(tmp_path / "tokenizer_config.json", {"bos_token": BOS, "add_bos_token": True, "add_eos_token": True})
    assert inspect(tmp_path).text.tokenizer["adds"] == "<|im_start|> before and <|im_end|> after a text"


@pytest.mark.parametrize(
    ("prefix", "adds_bos", "expected"),
    [
        (BOS + BOS, True, {"template.two-bos"}),
        (BOS, True, {"template.bos-and-flag"}),
        (BOS, False, set()),
        ("", True, {"template.no-bos"}),
    ],
)
def test_bos(tmp_path: Path, prefix: str, adds_bos: bool, expected: set[str]) -> None:
    body = "{% for message in messages %}{{ message.content }}<|im_end|>{% endfor %}"
    set_template(write(tmp_path), prefix + body)
    change(tmp_path / "tokenizer_config.json", {"bos_token": BOS, "add_bos_token": adds_bos})
    assert {id_ for id_ in text_ids(tmp_path) if "bos" in id_} == expected


def test_places_of_the_default_template(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    assert "template.differ" not in text_ids(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(CHAT_TEMPLATE + "\n")
    assert "template.differ" in text_ids(tmp_path)


def test_named_templates_may_differ(tmp_path: Path) -> None:
    write(tmp_path)
    named = [{"name": "default", "template": CHAT_TEMPLATE}, {"name": "tool_use", "template": "x"}]
    set_template(tmp_path, named)  # type: ignore[arg-type]
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "rag.jinja").write_text("y")
    assert "template.differ" not in text_ids(tmp_path)
    assert list(find_templates(open_subject(tmp_path))) == [
        "tokenizer_config.json: default",
        "tokenizer_config.json: tool_use",
        "additional_chat_templates/rag.jinja",
    ]


@pytest.mark.parametrize(("ends", "is_found"), [([258, 256], False), ([256], True), (None, False)])
def test_sources_that_name_different_ends(tmp_path: Path, ends: list[int] | None, is_found: bool) -> None:
    """config.json and the tokenizer name 258. More in generation_config.json is usual, others are not."""
    change(write(tmp_path) / "generation_config.json", {"eos_token_id": ends})
    assert ("tokenizer.ends" in text_ids(tmp_path)) == is_found


def test_more_tokens_than_rows(tmp_path: Path) -> None:
    def cut(tensors: dict) -> None:  # type: ignore[type-arg]
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            tensors[name] = tensors[name][:256]

    write(tmp_path, config={"vocab_size": 256, "eos_token_id": 3}, tensors=cut)
    change(tmp_path / "generation_config.json", {"eos_token_id": 3})
    assert "tokenizer.rows" in text_ids(tmp_path)


def test_special_tokens_that_are_split(tmp_path: Path) -> None:
    write(tmp_path)
    assert "tokenizer.special" not in text_ids(tmp_path)
    document = tokenizer_json()
    document["added_tokens"][1]["single_word"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    assert "tokenizer.special" in text_ids(tmp_path)


def test_a_known_pattern_is_named_and_one_of_another_family_suspected(tmp_path: Path) -> None:
    write(tmp_path, "MistralForCausalLM")
    for name, is_wrong in (("llama-bpe", True), ("tekken", False)):
        document = {**tokenizer_json(), "pre_tokenizer": pre_tokenizer(name)}
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        report = inspect(tmp_path)
        assert report.text.tokenizer["pre-tokenizer"] == f"Split then ByteLevel (the words of {name})"
        assert ("tokenizer.regex" in {finding.id for finding in report.findings}) == is_wrong


def test_a_pattern_of_no_known_model_is_told(tmp_path: Path) -> None:
    write(tmp_path)
    steps = pre_tokenizer("qwen2")
    steps["pretokenizers"][0]["pattern"]["Regex"] += "|x+"
    (tmp_path / "tokenizer.json").write_text(json.dumps({**tokenizer_json(), "pre_tokenizer": steps}))
    assert "tokenizer.pattern" in text_ids(tmp_path)


def test_markers_of_a_template_that_the_vocabulary_does_not_mark(tmp_path: Path) -> None:
    """The token is there, as an ordinary one: a template that writes its text gets pieces."""
    document = tokenizer_json()
    vocabulary = document["model"]["vocab"]
    del vocabulary[next(text for text, id_ in vocabulary.items() if id_ == 200)]
    vocabulary["<turn>"] = 200
    (write(tmp_path) / "tokenizer.json").write_text(json.dumps(document))
    set_template(tmp_path, CHAT_TEMPLATE + "{% if false %}<turn>{% endif %}")
    assert "tokenizer.special" in text_ids(tmp_path)


def test_gemma_needs_bos(tmp_path: Path) -> None:
    write(tmp_path, "Gemma3ForCausalLM")
    assert "tokenizer.no-bos" in text_ids(tmp_path)
    change(tmp_path / "tokenizer_config.json", {"bos_token": BOS, "add_bos_token": True})
    assert "tokenizer.no-bos" not in text_ids(tmp_path)


def test_patterns_of_steps() -> None:
    assert find_pattern({"type": "Split", "pattern": {"Regex": "x"}}) == "x"
    assert find_pattern({"type": "Split", "pattern": {"String": "x"}}) is None
    assert find_pattern("no step") is None
