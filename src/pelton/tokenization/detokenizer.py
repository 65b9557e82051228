"""Token ids to text as they arrive.

Invariant: what `push` returned so far, and `finish` at the end, joined, is `Tokenizer.decode` of all ids. A byte is
handed out with the last byte of its character and never before, so no text is ever taken back. Constant time and
memory for each token: a token is bytes, and at most three bytes of an open character are kept.

Not safe for several threads; one for each stream.
"""

import codecs
from typing import final

from pelton.tokenization.tokenizer import Tokenizer


@final
class Detokenizer:
    """One stream of tokens. `is_continuation`: the stream goes on from a prompt, so its first space is kept."""

    def __init__(
        self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True, is_continuation: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids if skip_special_tokens else frozenset()
        self._strips_space = tokenizer.strips_first_space and not is_continuation
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that is certain after this token; often one token late, sometimes empty.

        An id that the model has a row for but the vocabulary no text adds nothing.
        """
        if token_id in self._skipped or token_id >= self._tokenizer.vocab_size:
            return ""
        piece = self._tokenizer.token_bytes(token_id)
        if self._strips_space and piece:
            self._strips_space = False
            piece = piece.removeprefix(b" ")
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """What is left when no token follows: U+FFFD for a character that was never completed, or nothing."""
        return self._decoder.decode(b"", final=True)
