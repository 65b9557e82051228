"""One door to every tokenizer: from what a checkpoint says to something that encodes."""

from pelton.tokenization.gguf_tokenizer import make_gguf_tokenizer
from pelton.tokenization.hf_tokenizer import make_hf_tokenizer
from pelton.tokenization.source import HfTokenizerSource, TokenizerSource
from pelton.tokenization.tokenizer import Tokenizer


def make_tokenizer(source: TokenizerSource) -> Tokenizer:
    """Build the tokenizer of a checkpoint; up to two seconds for a vocabulary of 262,144. Raises CheckpointError."""
    if isinstance(source, HfTokenizerSource):
        return make_hf_tokenizer(source)
    return make_gguf_tokenizer(source)
