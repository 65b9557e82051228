"""Days follow from a seed, conversations begin like their past, files are checked line by line."""

import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from pelton.bench.simulation import Arrival
from pelton.bench.traffic import KINDS, compute_load, forget_priorities, get_kinds, make_day, read_day
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def take(kind: str, *, rate: float = 3.0, hours: float = 0.1, seed: int = 0) -> list[Arrival]:
    return list(make_day(kind, rate=rate, hours=hours, seed=seed))


@pytest.mark.parametrize("kind", get_kinds())
def test_a_day_follows_from_its_seed_and_is_in_order(kind: str) -> None:
    day = take(kind)
    assert day == take(kind)
    assert day != take(kind, seed=1)
    assert [each.at_s for each in day] == sorted(each.at_s for each in day)
    assert len({each.request.request_id for each in day}) == len(day)
    assert {each.request.tenant for each in day} <= {source.tenant for source in KINDS[kind]}
    assert all(each.request.sampling.max_tokens for each in day)


def test_as_many_come_as_asked_for() -> None:
    assert len(take("flood", rate=10.0, hours=0.5)) == pytest.approx(18_000, rel=0.15)
    shares = Counter(each.request.tenant for each in take("flood", rate=10.0, hours=0.5))
    assert 35 < shares["flood"] / shares["polite"] < 70


def test_hours_differ_and_a_day_has_the_mean() -> None:
    loads = [compute_load(3600.0 * hour) for hour in range(24)]
    assert sum(loads) / 24 == pytest.approx(1.0)
    assert (loads[6], loads[18]) == (1.5, 0.5)


def test_a_later_turn_begins_with_all_that_was_said_and_sources_share_their_beginning() -> None:
    day = take("agents", hours=0.2)
    sessions = defaultdict(list)
    for each in day:
        prompt = each.request.prompt_token_ids
        sessions[prompt[1500]].append(prompt)
    assert len({prompt[:1500] for turns in sessions.values() for prompt in turns}) == 1
    assert len(sessions) > 8
    for turns in sessions.values():
        for before, after in itertools.pairwise(turns):
            assert after[: len(before)] == before
            assert after[len(before)] == before[-1] + 1  # what a simulated engine answers


def test_priorities_can_be_forgotten_and_deadlines_are_on_the_clock_of_arrivals() -> None:
    day = take("mixed", hours=0.5)
    assert {each.request.priority for each in day} == {0, 1}
    assert {each.request.priority for each in forget_priorities(iter(day))} == {0}
    chat = [each for each in day if each.request.tenant == "chat"]
    assert {round(each.request.deadline_s - each.at_s) for each in chat} == {120}
    assert 0 < sum(each.leaves_s is not None for each in chat) < len(chat) / 5


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(json.dumps(line) if not isinstance(line, str) else line for line in lines))
    return path


def test_a_file_is_a_day(tmp_path: Path) -> None:
    path = write(
        tmp_path / "day.jsonl",
        {"at_s": 2.0, "prompt_tokens": 9, "output_tokens": 2, "session": "s", "tenant": "a", "shared_tokens": 3},
        "",
        {"at_s": 1, "prompt_tokens": 6, "output_tokens": 3, "session": "s", "tenant": "a", "shared_tokens": 3},
        {"at_s": 3, "prompt_tokens": 5, "output_tokens": 1, "priority": 2, "timeout_s": 4.5, "leaves_s": 5},
    )
    first, second, third = read_day(path)
    assert (first.at_s, second.at_s, third.at_s) == (1.0, 2.0, 3.0)
    assert second.request.prompt_token_ids[:6] == first.request.prompt_token_ids
    assert len(second.request.prompt_token_ids) == 9
    assert second.request.tenant == "a"
    assert (third.request.priority, third.request.deadline_s, third.leaves_s) == (2, 7.5, 5.0)
    assert third.request.sampling.max_tokens == 1
    assert not set(third.request.prompt_token_ids) & set(second.request.prompt_token_ids)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "no request"),
        ("3", "no request"),
        ('{"at": 1}', "no request"),
        ('{"at_s": "soon", "prompt_tokens": 1, "output_tokens": 1}', "no request"),
        ('{"at_s": 1, "prompt_tokens": 5}', "output_tokens is missing"),
        ('{"at_s": NaN, "prompt_tokens": 5, "output_tokens": 1}', "give numbers"),
        ('{"at_s": 1, "prompt_tokens": 0, "output_tokens": 1}', "give numbers"),
    ],
)
def test_a_line_that_is_no_request_is_named(line: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path / "day.jsonl", {"at_s": 0, "prompt_tokens": 1, "output_tokens": 1}, line)
    with pytest.raises(ConfigError, match=rf"day\.jsonl:2: {problem}"):
        read_day(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--replay: .* cannot be read"):
        read_day(tmp_path / "nothing")
