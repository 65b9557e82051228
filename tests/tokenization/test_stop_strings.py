"""Stop strings are found whatever the pieces, and nothing is held back in vain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pelton.tokenization.stop_strings import Released, StopStrings

pytestmark = pytest.mark.unit

TEXT = st.text("abc", max_size=30)
STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=4)


def cut(text: str, stops: list[str], include_stop: bool) -> tuple[str, str | None]:
    """The definition: the first end of a stop string wins, and there the longest."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            stop = max(found, key=len)
            return text[: end if include_stop else end - len(stop)], stop
    return text, None


@given(TEXT, STOPS, st.booleans(), st.lists(st.integers(0, 5), min_size=40, max_size=40))
def test_any_pieces_give_the_definition(text: str, stops: list[str], include_stop: bool, sizes: list[int]) -> None:
    stream = StopStrings(stops, include_stop=include_stop)
    released: list[Released] = []
    at = 0
    for size in [*sizes, len(text)]:
        released.append(stream.push(text[at : at + size]))
        at += size
    released.append(stream.finish())
    found = [part.stop for part in released if part.stop is not None]
    assert len(found) <= 1
    assert ("".join(part.text for part in released), found[0] if found else None) == cut(text, stops, include_stop)


@given(TEXT, STOPS)
def test_only_a_possible_beginning_is_held_back(text: str, stops: list[str]) -> None:
    stream = StopStrings(stops)
    shown = ""
    for end in range(1, len(text) + 1):
        part = stream.push(text[end - 1])
        shown += part.text
        if part.stop is not None:
            return
        held = text[len(shown) : end]
        assert not held or any(stop.startswith(held) for stop in stops)


def test_stop_across_pieces() -> None:
    stream = StopStrings(["\n\nUser:"])
    assert stream.push("Hi\n") == Released("Hi")
    assert stream.push("\nUs") == Released("")
    assert stream.push("er: x") == Released("", "\n\nUser:")
    assert stream.push("more") == Released("")
    assert stream.finish() == Released("")


def test_near_miss_is_released_whole() -> None:
    stream = StopStrings(["STOP"])
    assert stream.push("STO") == Released("")
    assert stream.push("STOx") == Released("STOSTOx")


def test_included_stop_needs_no_holding_back() -> None:
    stream = StopStrings(["END"], include_stop=True)
    assert stream.push("xE") == Released("xE")
    assert stream.push("NDy") == Released("ND", "END")


def test_no_stops_and_empty_stops_pass_everything() -> None:
    assert StopStrings([]).push("abc") == Released("abc")
    assert StopStrings([""]).push("abc") == Released("abc")
