"""Whether a history can be true: one end for every request, the right text and counts, and nothing of anybody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tests.soak.ask import compute_expected
from tests.soak.client import History

REFUSED: Final = {429: "rate_limit_exceeded", 503: "overloaded", 504: "deadline_exceeded"}


def classify(history: History) -> str:
    """How a request ended: ok, left, refused, late, or lost."""
    if history.has_left:
        return "left"
    if history.broken or history.status == 0:
        return "lost"
    if history.status in REFUSED:
        return "late" if history.status == 504 else "refused"
    if history.error is not None:
        return "late" if history.error.get("code") == "deadline_exceeded" else "lost"
    return "ok" if history.status == 200 else "lost"


def find_problems(history: History, *, may_refuse: bool = True, may_drop_slow: bool = True) -> Iterator[str]:
    """Everything that is wrong with a history, in words. Nothing, if all is well."""
    ask, kind = history.ask, classify(history)
    if kind == "lost" and may_drop_slow and ask.manner == "dawdles" and history.broken and history.status in (0, 200):
        kind = "left"  # the connection of a client that is too slow may be cut; an answer that is wrong may not come
    if kind == "lost":
        yield f"it was lost: status {history.status}, {history.broken or history.error}"
    if kind == "late" and not ask.timeout_ms:
        yield "it was ended for a deadline that it did not have"
    if kind == "refused":
        if not may_refuse:
            yield f"it was refused with {history.status}"
        if "retry-after" not in history.headers or "retry-after-ms" not in history.headers:
            yield "it was refused without a word of when to come back"
    if history.status in REFUSED and (history.error or {}).get("code") != REFUSED[history.status]:
        yield f"status {history.status} with the code {(history.error or {}).get('code')!r}"
    yield from _find_wrong_content(history, is_whole=kind == "ok")


def find_miscounts(served: Mapping[str, float], seen: Counter[str], num_unseen: int) -> Iterator[str]:
    """What the server counted, against what its clients saw: answers by reason, and those whose end nobody saw.

    `served` is how many answers ended by each reason, and `refused`; whoever left may have been served whole.
    """
    for name in sorted({*served, *seen}):
        more = served.get(name, 0.0) - seen[name]
        if not 0 <= more <= num_unseen:
            yield f"the server counts {served.get(name, 0.0):.0f} answers {name!r}, its clients saw {seen[name]}"
    more = sum(served.values()) - seen.total()
    if more > num_unseen:
        yield f"the server counts {sum(served.values()):.0f} answers, its clients {seen.total()} and {num_unseen} left"


def _find_wrong_content(history: History, *, is_whole: bool) -> Iterator[str]:
    expected = compute_expected(history.ask)
    for index, text in history.texts.items():
        if not 0 <= index < len(expected):
            yield f"answer {index} was not asked for"
        elif not expected[index][0].startswith(text):
            yield f"answer {index} is wrong at {_find_difference(text, expected[index][0])} of {len(text)}"
    if any(len(reasons) > 1 for reasons in history.reasons.values()):
        yield f"an answer ended more than once: {history.reasons}"
    if not is_whole:
        if history.num_dones > (history.has_left or history.error is not None):  # an error is followed by the mark too
            yield "it was whole and not whole"
        return
    if history.num_dones != 1:
        yield f"it ended {history.num_dones} times"
    for index, (text, reason) in enumerate(expected):
        if history.texts.get(index, "") != text:
            yield f"answer {index} has {len(history.texts.get(index, ''))} letters of {len(text)}"
        if history.reasons.get(index) != [reason]:
            yield f"answer {index} ended with {history.reasons.get(index)}, expected {reason}"
    yield from _find_wrong_usage(history)


def _find_wrong_usage(history: History) -> Iterator[str]:
    ask, usage = history.ask, history.usage
    if usage is None:
        yield "it has no usage"
        return
    if ask.expected:  # by a model, whose tokens are no letters
        return
    if usage["prompt_tokens"] != len(ask.prompt.encode()):
        yield f"{usage['prompt_tokens']} prompt tokens of {len(ask.prompt.encode())}"
    least = sum(len(text) for text, _ in compute_expected(ask))
    most = ask.n * ask.max_tokens  # a stop text counts as far as it was made
    if not least <= usage["completion_tokens"] <= most or (ask.stop is None and usage["completion_tokens"] != least):
        yield f"{usage['completion_tokens']} tokens of answers, expected {least} to {most}"
    if not 0 <= usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]:
        yield f"{usage['prompt_tokens_details']['cached_tokens']} cached tokens of {usage['prompt_tokens']}"


def _find_difference(text: str, expected: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(text, expected, strict=False)) if a != b), len(expected))
