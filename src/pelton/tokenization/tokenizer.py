"""Text to token ids and back, for any checkpoint: the `tokenizers` library with what serving needs around it.

Invariant: `decode` is the UTF-8 reading of the joined `token_bytes`, so a stream, a whole text and the bytes of
logprobs can never disagree. Special tokens come from text only where the caller lets them (`control_text`).

Safe to use from many threads at once; a long text is encoded without the GIL. Holds the library's vocabulary and one
cached `bytes` for each id that was seen. Long texts cost time: call it off the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, final

from pelton.errors import RequestError
from pelton.tokenization.control_text import BREAK, ControlText

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

# The library's `encode` keeps the GIL, 0.7 us for a character; its batches do not, and cost 20 us more.
SHORT_CHARACTERS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """What the checkpoint says about its tokens that the library does not know."""

    bos_id: int | None
    eos_id: int | None
    end_ids: frozenset[int]
    """Every id that ends a text or a turn, `eos_id` included."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """`bos_token`, `eos_token`, ...: what chat templates read."""


@final
class Tokenizer:
    """See the module. `bytes_of_piece` says what a vocabulary entry stands for."""

    def __init__(
        self,
        library: Library,
        special: SpecialTokens,
        bytes_of_piece: Callable[[str], bytes],
        *,
        strips_first_space: bool = False,
    ) -> None:
        self._library = library
        self._special = special
        self._bytes_of_piece = bytes_of_piece
        self._strips_first_space = strips_first_space
        self._bytes: dict[int, bytes] = {}
        self._added = library.get_added_tokens_decoder()
        self._special_ids = frozenset(id_ for id_, token in self._added.items() if token.special)
        self._vocab_size = max([library.get_vocab_size(with_added_tokens=False), *(id_ + 1 for id_ in self._added)])

    def save(self) -> str:
        """The text of a tokenizer.json that gives the same ids."""
        text: str = self._library.to_str(pretty=True)
        return text

    @property
    def vocab_size(self) -> int:
        """One more than the highest id. A model may have more rows than that; they have no text."""
        return self._vocab_size

    @property
    def bos_token_id(self) -> int | None:
        return self._special.bos_id

    @property
    def eos_token_id(self) -> int | None:
        return self._special.eos_id

    @property
    def end_token_ids(self) -> frozenset[int]:
        """Every id after which a text or a turn is over."""
        return self._special.end_ids

    @property
    def special_ids(self) -> frozenset[int]:
        """Control tokens: left out of decoded text unless asked for, never made from protected text."""
        return self._special_ids

    @property
    def special_texts(self) -> Mapping[str, str]:
        """`bos_token`, `eos_token`, ... by name: variables of chat templates."""
        return self._special.texts

    @property
    def strips_first_space(self) -> bool:
        """Whether the first space of a text is the tokenizer's own (SentencePiece's dummy prefix)."""
        return self._strips_first_space

    @cached_property
    def longest_token(self) -> int:
        """Most bytes that one token can stand for: a text has at least its bytes divided by this of tokens."""
        pieces = self._library.get_vocab(with_added_tokens=True)
        return max((len(piece.encode()) for piece in pieces), default=1)

    @cached_property
    def control_text(self) -> ControlText:
        """Protects client text against forged control tokens."""
        return ControlText(self._added[id_].content for id_ in self._special_ids)

    def encode(self, text: str, *, add_special_tokens: bool = True, parse_special: bool = True) -> list[int]:
        """The ids of `text`. `add_special_tokens`: with the BOS and EOS the model was trained with.

        `parse_special=False` takes text that spells a special token as plain text. Breaks of `control_text` are
        honoured in any case. Raises RequestError for text that is not Unicode (a lone surrogate).
        """
        check_unicode(text)
        if not parse_special:
            text = self.control_text.protect(text)
        library = self._breaking_library if BREAK in text else self._library
        if len(text) <= SHORT_CHARACTERS:
            encoding = library.encode(text, add_special_tokens=add_special_tokens)
        else:
            (encoding,) = library.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        ids: list[int] = encoding.ids
        return ids

    def encode_batch(
        self, texts: Iterable[str], *, add_special_tokens: bool = True, parse_special: bool = True
    ) -> list[list[int]]:
        """`encode` for each text, on the caller's thread: the library's own threads would take the engine's cores."""
        return [self.encode(text, add_special_tokens=add_special_tokens, parse_special=parse_special) for text in texts]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True, is_continuation: bool = False) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD.

        `is_continuation`: the ids follow others, so a first space is part of the text even where the tokenizer
        would put one in front of every text. Raises RequestError for an id outside the vocabulary.
        """
        skipped = self._special_ids if skip_special_tokens else frozenset()
        joined = b"".join([self.token_bytes(id_) for id_ in ids if id_ not in skipped])
        if self._strips_first_space and not is_continuation:
            joined = joined.removeprefix(b" ")
        return joined.decode("utf-8", "replace")

    def token_bytes(self, id_: int) -> bytes:
        """The bytes that the token adds to a text. They need not be whole characters."""
        known = self._bytes.get(id_)
        if known is None:
            known = self._bytes[id_] = self._find_bytes(id_)
        return known

    def id_to_token(self, id_: int) -> str:
        """The vocabulary's own spelling of an id. Raises RequestError for an id outside the vocabulary."""
        if not 0 <= id_ < self._vocab_size:
            raise RequestError(f"token id {id_} is outside the vocabulary of {self._vocab_size} tokens.")
        return self._library.id_to_token(id_) or ""

    def token_to_id(self, token: str) -> int | None:
        """The id of a vocabulary entry, by the vocabulary's own spelling."""
        id_: int | None = self._library.token_to_id(token)
        return id_

    def _find_bytes(self, id_: int) -> bytes:
        added = self._added.get(id_)
        if added is not None:
            return added.content.encode()
        return self._bytes_of_piece(self.id_to_token(id_))

    @cached_property
    def _breaking_library(self) -> Library:
        return make_breaking(self._library)


def check_unicode(text: str) -> None:
    """Raise RequestError where `text` has a surrogate without its other half, which no encoding can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"text: character {error.start} is the lone surrogate U+{ord(text[error.start]):04X}, which is not Unicode "
            "text. Send the whole character or U+FFFD in its place."
        ) from error


def make_breaking(library: Library) -> Library:
    """A second library tokenizer on the same model, which drops breaks after it has looked for special tokens."""
    from tokenizers import AddedToken, Tokenizer, normalizers  # noqa: PLC0415

    other = Tokenizer(library.model)
    drop = normalizers.Replace(BREAK, "")
    other.normalizer = normalizers.Sequence([drop, library.normalizer]) if library.normalizer else drop
    if library.pre_tokenizer is not None:
        other.pre_tokenizer = library.pre_tokenizer
    if library.post_processor is not None:
        other.post_processor = library.post_processor
    # A special token matched in normalized text would be found where a break has just been dropped.
    other.add_tokens(
        [
            AddedToken(
                token.content,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                single_word=token.single_word,
                normalized=token.normalized and not token.special,
                special=token.special,
            )
            for _, token in sorted(library.get_added_tokens_decoder().items())
        ]
    )
    return other
