r"""How text is cut into words before byte-level merges, by the name that GGUF files carry (`tokenizer.ggml.pre`).

A GGUF file holds only this name, so the rule itself stands here. Each rule is what the `tokenizer.json` of the models
of that name does: a Unicode normal form, the patterns that cut in turn, and whether a word that is itself a token is
taken whole without looking at merges. A name that is not in the table is refused: a near rule gives wrong ids for
digits, contractions or newlines without any error (ggml-org/llama.cpp#6920). Patterns are in the syntax of Oniguruma.
"""

from dataclasses import dataclass

from pelton.errors import CheckpointError, nearest


@dataclass(frozen=True, slots=True)
class PreTokenizerRule:
    """Cut by each pattern in turn: what a pattern matches, and what lies between matches, are pieces of their own."""

    patterns: tuple[str, ...]
    is_nfc: bool = False
    takes_whole_words: bool = False
    adds_bos: bool = False
    """Whether the models of this name begin with BOS where the file does not say."""


def _spelled(span: str) -> str:
    """The hexadecimal "41-5a" as a part of a class of characters."""
    return "-".join(rf"\x{{{end}}}" for end in span.split("-"))


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_TAIL}"
_QWEN2 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_TAIL}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER_THEN_LOWER = (
    r"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]+{end}"
    r"|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]*{end}"
    r"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT4O = _UPPER_THEN_LOWER.format(end=f"{_CONTRACTION}?", digits=r"\p{N}{1,3}")
_TEKKEN = _UPPER_THEN_LOWER.format(end="", digits=r"\p{N}")
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_HAN_AND_HANGUL = r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN_AND_HANGUL, r"\p{N}")
# Letters with upper and lower case, as Unicode had them when the model was made, but for small Armenian ones.
_CASED = (
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c 38e-3a1 "
    "3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a "
    "1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 "
    "1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 "
    "212a-212d 212f-2134 2139 213c-213f 2145-2149 214e 2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 a640-a66d "
    "a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f "
    "104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"
)
_DEEPSEEK_LLM = (  # the third pattern cuts letters of ASCII from others: from ":" to "~" are all of them
    r"[\r\n]",
    rf"\s?[{''.join(_spelled(span) for span in _CASED.split())}]+",
    r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    _HAN_AND_HANGUL,
    r"\p{N}+",
)
_SEED_CODER = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_RULES = {
    "gpt-2": PreTokenizerRule((_GPT2,)),
    "olmo": PreTokenizerRule((_GPT2,), is_nfc=True),
    "smollm": PreTokenizerRule((r"\p{N}", _GPT2)),
    "llama-bpe": PreTokenizerRule((_LLAMA3,), takes_whole_words=True, adds_bos=True),
    "dbrx": PreTokenizerRule((_LLAMA3,)),
    "qwen2": PreTokenizerRule((_QWEN2,), is_nfc=True),
    "deepseek-r1-qwen": PreTokenizerRule((_QWEN2,)),
    "qwen35": PreTokenizerRule((_QWEN35,), is_nfc=True),
    "gpt-4o": PreTokenizerRule((_GPT4O,)),
    "tekken": PreTokenizerRule((_TEKKEN,), takes_whole_words=True, adds_bos=True),
    "deepseek-v3": PreTokenizerRule(_DEEPSEEK3),
    "deepseek-llm": PreTokenizerRule(_DEEPSEEK_LLM),
    "deepseek-coder": PreTokenizerRule(_DEEPSEEK_CODER),
    "seed-coder": PreTokenizerRule((_SEED_CODER,)),
}

_SAME_AS = {
    "gpt-2": ("gpt2", "phi-2", "jais", "trillion", "granite-docling"),
    "olmo": ("mpt",),
    "smollm": ("starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
    "llama-bpe": ("llama3", "llama-v3", "falcon3", "midm-2.0"),
    "dbrx": ("smaug-bpe", "glm4", "chatglm-bpe"),
    "qwen2": ("stablelm2",),
    "gpt-4o": ("llama4",),
    "deepseek-v3": ("deepseek-r1",),
}

PRE_TOKENIZERS = {**_RULES, **{alias: _RULES[name] for name, aliases in _SAME_AS.items() for alias in aliases}}


def find_pre_tokenizer(pre: str) -> PreTokenizerRule:
    """The rule of a `tokenizer.ggml.pre` name. Raises CheckpointError for a name that is not known."""
    if not pre or pre == "default":
        raise CheckpointError(
            f"tokenizer.ggml.pre is {pre!r}, which does not say how text is cut before byte-level merges. "
            "Convert the model again with a converter that writes the name, or use its tokenizer.json."
        )
    if pre not in PRE_TOKENIZERS:
        raise CheckpointError(
            f"tokenizer.ggml.pre: {pre!r} is not a known pre-tokenizer. {nearest(pre, PRE_TOKENIZERS)}"
        )
    return PRE_TOKENIZERS[pre]
