"""Text to token ids and back: tokenizers, incremental detokenization, stop strings, chat templates."""

from pelton.tokenization.make import make_tokenizer
from pelton.tokenization.source import GgufTokenizerSource, HfTokenizerSource, TokenizerSource
from pelton.tokenization.tokenizer import Tokenizer

__all__ = ["GgufTokenizerSource", "HfTokenizerSource", "Tokenizer", "TokenizerSource", "make_tokenizer"]
