"""The forms in which a program may give prompts, brought into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pelton.errors import RequestError, nearest

_KEYS = ("prompt", "prompt_token_ids")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text that is not tokenized yet, or token ids; exactly one of them is set."""

    text: str | None = None
    token_ids: tuple[int, ...] | None = None


def parse_prompt(given: Any, *, where: str = "prompt") -> Prompt:
    """One prompt: a text, a list of token ids, {"prompt": text} or {"prompt_token_ids": ids}. Raises RequestError.

    >>> parse_prompt("hello"), parse_prompt({"prompt_token_ids": [1, 2]})
    (Prompt(text='hello', token_ids=None), Prompt(text=None, token_ids=(1, 2)))
    """
    if isinstance(given, str):
        return Prompt(text=given)
    if isinstance(given, Mapping):
        return _parse_mapping(given, where)
    token_ids = find_token_ids(given)
    if token_ids is not None:
        return Prompt(token_ids=token_ids)
    raise RequestError(
        f"{where}: {type(given).__name__} is not a prompt, expected a text, a list of token ids, "
        '{"prompt": text} or {"prompt_token_ids": ids}.',
        param="prompt",
    )


def _parse_mapping(given: Mapping[str, Any], where: str) -> Prompt:
    for key in given:
        if key not in _KEYS:
            raise RequestError(f"{where}: {key!r} is not a known key. {nearest(str(key), _KEYS)}", param="prompt")
    if len(given) != 1:
        raise RequestError(f"{where}: give either 'prompt' or 'prompt_token_ids'.", param="prompt")
    (key, value) = next(iter(given.items()))
    if key == "prompt" and isinstance(value, str):
        return Prompt(text=value)
    token_ids = find_token_ids(value)
    if key == "prompt_token_ids" and token_ids is not None:
        return Prompt(token_ids=token_ids)
    raise RequestError(f"{where}: {key} is of the wrong type ({type(value).__name__}).", param="prompt")


def parse_prompts(given: Any) -> tuple[list[Prompt], bool]:
    """All prompts, and whether `given` was a single one. A list of whole numbers is one prompt, of token ids.

    >>> parse_prompts(["a", [1, 2]])[0]
    [Prompt(text='a', token_ids=None), Prompt(text=None, token_ids=(1, 2))]
    >>> parse_prompts([1, 2])
    ([Prompt(text=None, token_ids=(1, 2))], True)
    """
    is_many = isinstance(given, Sequence) and not isinstance(given, str) and not (given and is_token_id(given[0]))
    if not is_many:
        return [parse_prompt(given)], True
    return [parse_prompt(item, where=f"prompts[{i}]") for i, item in enumerate(given)], False


def find_token_ids(given: Any) -> tuple[int, ...] | None:
    """`given` as token ids, if it is a list of whole numbers. As fast as C: a list may have millions of them."""
    if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
        return None
    try:
        return msgspec.convert(given, tuple[int, ...], strict=True)
    except msgspec.ValidationError:
        return None


def is_token_id(value: Any) -> bool:
    """Whether `value` is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)
