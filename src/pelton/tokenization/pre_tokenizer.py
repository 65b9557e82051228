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
