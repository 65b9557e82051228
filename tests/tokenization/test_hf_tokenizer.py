"""A tokenizer.json runs as it is; what stands beside it is honoured or refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.tokenization.small_tokenizers import NASTY_TEXTS, byte_level_oracle
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from pelton.errors import CheckpointError
from pelton.tokenization import HfTokenizerSource, hf_tokenizer, make_tokenizer

pytestmark = pytest.mark.unit


def save(
    folder: Path, library: Library, config: Mapping[str, Any] | None = None, **special: object
) -> HfTokenizerSource:
    path = folder / "tokenizer.json"
    library.save(str(path))
    return HfTokenizerSource(
        tokenizer_json=path,
        tokenizer_config=config or {},
        special_tokens=special,
        chat_template=None,
        chat_templates={},
    )


def test_ids_and_texts_equal_the_library(tmp_path: Path) -> None:
    oracle = byte_level_oracle("qwen2")
    tokenizer = make_tokenizer(save(tmp_path, oracle))
    for text in NASTY_TEXTS:
        ids = tokenizer.encode(text)
        assert ids == oracle.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == oracle.decode(ids, skip_special_tokens=False)


def test_truncation_and_padding_of_the_file_are_off(tmp_path: Path) -> None:
    oracle = byte_level_oracle("qwen2")
    expected = oracle.encode("one two three four").ids
    oracle.enable_truncation(2)
    oracle.enable_padding(length=50)
    assert make_tokenizer(save(tmp_path, oracle)).encode("one two three four") == expected


@pytest.mark.parametrize("as_object", [False, True])
def test_special_ids_come_from_the_config_first(tmp_path: Path, as_object: bool) -> None:
    eos = {"content": "<|im_end|>", "lstrip": False} if as_object else "<|im_end|>"
    source = save(tmp_path, byte_level_oracle("qwen2"), {"eos_token": eos, "bos_token": None}, eos_token="<|im_start|>")
    tokenizer = make_tokenizer(source)
    assert tokenizer.eos_token_id == tokenizer.token_to_id("<|im_end|>")
    assert tokenizer.bos_token_id is None
    assert tokenizer.end_token_ids == {tokenizer.eos_token_id}
    assert tokenizer.special_texts == {"eos_token": "<|im_end|>"}


def test_special_tokens_map_is_the_second_source(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(save(tmp_path, byte_level_oracle("qwen2"), bos_token={"content": "<|im_start|>"}))
    assert tokenizer.bos_token_id == tokenizer.token_to_id("<|im_start|>")


@pytest.mark.parametrize("file_adds", [False, True])
@pytest.mark.parametrize("adds_bos", [False, True, None])
@pytest.mark.parametrize("adds_eos", [False, True, None])
def test_border_flags(tmp_path: Path, file_adds: bool, adds_bos: bool | None, adds_eos: bool | None) -> None:
    library = byte_level_oracle("qwen2")
    bos, eos = library.token_to_id("<|im_start|>"), library.token_to_id("<|im_end|>")
    if file_adds:
        library.post_processor = processors.TemplateProcessing(
            single="<|im_start|> $A", special_tokens=[("<|im_start|>", bos)]
        )
    config = {
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "add_bos_token": adds_bos,
        "add_eos_token": adds_eos,
    }
    tokenizer = make_tokenizer(save(tmp_path, library, config))
    plain = tokenizer.encode("hi", add_special_tokens=False)
    has_bos = file_adds if adds_bos is None else adds_bos
    assert tokenizer.encode("hi") == [bos] * has_bos + plain + [eos] * (adds_eos is True)


def sentencepiece_like(decoder: decoders.Decoder) -> Library:
    pieces = ["<unk>", "\u2581", "a", "\u2581a", "<0xF0>", "<0x9F>", "<0xA4>", "<0x96>"]
    vocabulary = {piece: id_ for id_, piece in enumerate(pieces)}
    library = Library(models.BPE(vocabulary, [("\u2581", "a")], unk_token="<unk>", byte_fallback=True))
    library.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    library.decoder = decoder
    return library


@pytest.mark.parametrize("strips", [False, True])
def test_sentencepiece_decoder(tmp_path: Path, strips: bool) -> None:
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    library = sentencepiece_like(decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strips else steps))
    tokenizer = make_tokenizer(save(tmp_path, library))
    ids = tokenizer.encode("a a\U0001f916")
    assert tokenizer.decode(ids) == library.decode(ids) == ("a a\U0001f916" if strips else " a a\U0001f916")


def test_metaspace_decoder(tmp_path: Path) -> None:
    for scheme in ("always", "never"):
        library = sentencepiece_like(decoders.Metaspace(prepend_scheme=scheme))
        tokenizer = make_tokenizer(save(tmp_path, library))
        assert tokenizer.decode([3, 2]) == library.decode([3, 2])


def test_word_piece_decoder(tmp_path: Path) -> None:
    library = Library(models.WordPiece({"[UNK]": 0, "un": 1, "##able": 2, "to": 3}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.decoder = decoders.WordPiece()
    assert make_tokenizer(save(tmp_path, library)).decode([1, 2, 3]) == library.decode([1, 2, 3]) == "unable to"


def test_no_decoder(tmp_path: Path) -> None:
    library = Library(models.BPE({"a": 0, "b": 1}, []))
    assert make_tokenizer(save(tmp_path, library)).decode([0, 1]) == "ab"


def test_unknown_decoder_is_refused(tmp_path: Path) -> None:
    library = sentencepiece_like(decoders.CTC())
    with pytest.raises(CheckpointError, match="decoder of type CTC is not supported"):
        make_tokenizer(save(tmp_path, library))


def test_special_token_outside_of_the_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="eos_token is '<nope>'"):
        make_tokenizer(save(tmp_path, byte_level_oracle("qwen2"), {"eos_token": "<nope>"}))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"model": {"type": "Magic"}}', b"\xff\xfe", b"null"])
def test_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    source = save(tmp_path, byte_level_oracle("qwen2"))
    source.tokenizer_json.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        make_tokenizer(source)


def test_missing_and_huge_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = save(tmp_path, byte_level_oracle("qwen2"))
    monkeypatch.setattr(hf_tokenizer, "MAX_FILE_BYTES", 100)
    with pytest.raises(CheckpointError, match="of more than 100 is refused"):
        make_tokenizer(source)
    source.tokenizer_json.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        make_tokenizer(source)


def test_merges_that_contradict_the_vocabulary_are_refused(tmp_path: Path) -> None:
    source = save(tmp_path, byte_level_oracle("qwen2"))
    content = json.loads(source.tokenizer_json.read_text(encoding="utf-8"))
    content["model"]["merges"].append(["no", "such"])
    source.tokenizer_json.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot be built"):
        make_tokenizer(source)
