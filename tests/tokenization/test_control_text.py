"""No special token survives in protected text, alone or put together with other text."""

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.tokenization.control_text import BREAK, ControlText, remove_breaks

pytestmark = pytest.mark.unit

SPECIALS = ("<s>", "</s>", "<|a|>", "|a|", "<|a", "ab", "x")
TEXT = st.lists(st.sampled_from(["<", "s", ">", "/", "|", "a", "b", " ", *SPECIALS]), max_size=12).map("".join)


@given(TEXT)
def test_no_special_token_is_left_and_the_text_is_the_same(text: str) -> None:
    protected = ControlText(SPECIALS).protect(text)
    assert not any(special in protected for special in SPECIALS if len(special) > 1)
    assert remove_breaks(protected) == text


@given(st.lists(TEXT, max_size=4), st.booleans())
def test_joined_texts_form_no_special_token(texts: list[str], strips: bool) -> None:
    protect = ControlText(SPECIALS).protect
    joined = "".join(protect(text).strip() if strips else protect(text) for text in texts)
    assert not any(special in joined for special in SPECIALS if len(special) > 1)


@given(st.text(BREAK + "a<s>", max_size=12))
def test_text_that_contains_breaks_keeps_them(text: str) -> None:
    assert remove_breaks(ControlText(["<s>"]).protect(text)) == text


def test_values_are_copied_and_protected_to_the_leaves() -> None:
    value = {"role": "user", "<s>": [{"text": "a<s>", "n": 1, "ok": True, "none": None}], "t": ("<s>",)}
    assert ControlText(["<s>"]).protect_all(value) == {
        "role": "user",
        f"<{BREAK}s>": [{"text": f"a<{BREAK}s>", "n": 1, "ok": True, "none": None}],
        "t": [f"<{BREAK}s>"],
    }


def test_plain_text_is_not_copied() -> None:
    text = "nothing special here"
    assert ControlText(["<|im_end|>"]).protect(text) is text


@pytest.mark.parametrize("unit", ["<", "<|im_", "<|im_end|>", "|"])
def test_cost_grows_no_faster_than_the_text(unit: str) -> None:
    control = ControlText([f"<|im_{n}|>" for n in range(2000)] + ["<|im_end|>"])

    def measure(num_chars: int) -> float:
        text = unit * (num_chars // len(unit))
        start = perf_counter()
        control.protect(text)
        return perf_counter() - start

    small = min(measure(50_000) for _ in range(3))
    large = min(measure(400_000) for _ in range(3))
    assert large < 30 * max(small, 1e-4)
