"""Marks in prompts; what they do to a process is tried in processes of their own."""

import multiprocessing
import signal

import pytest

from pelton.oracle.fault import NO_TOKEN, Fault, OracleFault, commit, find_fault

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("prompt", "fault"),
    [
        (b"abc \x01crash:3; def", Fault("crash", 3)),
        (b"\x01hang:0;\x01none:2;", Fault("hang", 0)),
        (b"\x01crash:;", None),
        (b"\x01burn:1;", None),
        (b"crash:3;", None),
    ],
)
def test_marks_are_found(prompt: bytes, fault: Fault | None) -> None:
    assert find_fault(prompt) == fault
    assert find_fault([300, *prompt, 300]) == fault


def test_what_leaves_the_process_alive() -> None:
    with pytest.raises(OracleFault, match="asked to raise"):
        commit(Fault("raise", 0))
    assert commit(Fault("none", 0)) == NO_TOKEN


@pytest.mark.parametrize(("kind", "code"), [("crash", -signal.SIGSEGV), ("exit", 3)])
def test_what_does_not(kind: str, code: int) -> None:
    process = multiprocessing.get_context("spawn").Process(target=commit, args=(Fault(kind, 0),))
    process.start()
    process.join(20)
    assert process.exitcode == code


@pytest.mark.parametrize("kind", ["hang", "spin"])
def test_what_never_ends(kind: str) -> None:
    process = multiprocessing.get_context("spawn").Process(target=commit, args=(Fault(kind, 0),))
    process.start()
    process.join(0.3)
    assert process.is_alive()
    process.kill()
    process.join(20)
