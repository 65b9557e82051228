"""A request gets the same bits whatever is around it: every logit, every sampled token, every log-probability.

The expected answer is that of the request alone, at once, on one thread. Hypothesis then draws everything that may not
matter, all of it together: who else is in the batch and where, threads, chunks, block ids, where the cache lies. Each
mode of computing (8-bit activations, two terms, exact) has bits of its own. `WAYS` lists the ways to come to a program.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.backends.cpu.bitwise_model import (
    BLOCK_SIZE,
    MAX_BLOCKS,
    MODES,
    NUM_BLOCKS,
    NUM_OTHERS,
    NUM_TOKENS,
    TOKENS,
    VOCAB,
    Answer,
    check_equal,
    limits_of,
    load,
    write_model,
)
from tests.steps import sampling_inputs, step

from pelton.backends.cpu import CpuBackend, get_isa
from pelton.backends.executable import Executable, Limits, SamplingInputs
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.hub import where
from pelton.loading import load_model
from pelton.runner.kv_pool import KvPool

pytestmark = pytest.mark.cpu
LIMITS = limits_of("default", 1)


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bitwise") / "model.gguf"
    write_model(path)
    return path


def sampling_of(positions: list[int]) -> SamplingInputs:
    """Drawn at random from the twenty likeliest, with noise that depends on the position alone."""
    return sampling_inputs(
        len(positions), temperature=0.8, top_k=20, top_p=0.9, seed=11, position=positions, num_logprobs=1
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one request in a step."""

    ids: list[int]
    done: int
    blocks: list[int]


def run(executable: Executable, pieces: list[Piece], subject: int) -> Answer:
    """One step; the answer to piece `subject` of it."""
    inputs = step(
        [(piece.ids, piece.done) for piece in pieces],
        block_tables=[piece.blocks[: -(-(piece.done + len(piece.ids)) // BLOCK_SIZE)] for piece in pieces],
        limits=LIMITS,
        sampling=sampling_of([piece.done + i for piece in pieces for i in range(len(piece.ids))]),
    )
    first = sum(len(piece.ids) for piece in pieces[:subject])
    return Answer.of(executable.run(inputs, want_logits=True), first, len(pieces[subject].ids))


def whole_answer(executable: Executable) -> Answer:
    """The answer to all tokens in one step, alone."""
    return run(executable, [Piece(TOKENS, 0, list(range(MAX_BLOCKS)))], 0)


@cache
def expected_answer(path: Path, mode: str, isa: str) -> Answer:
    assert isa == get_isa()
    return whole_answer(load(path, mode))


@cache
def executable_of(path: Path, mode: str, num_threads: int, offset: int, isa: str) -> Executable:
    assert isa == get_isa()
    return load(path, mode, num_threads, offset=offset)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a request may find around itself."""

    mode: str
    num_tokens: int
    chunks: list[int]  # used again and again
    num_others: int
    threads: int
    offset: int  # of the cache, in lines of 64 bytes
    seed: int  # of blocks, places in the batch and the others' tokens


SCENES = st.builds(
    Scene,
    mode=st.sampled_from(sorted(MODES)),
    num_tokens=st.one_of(st.integers(1, 70), st.sampled_from([511, 512, 513, NUM_TOKENS])),
    chunks=st.lists(st.one_of(st.integers(1, 40), st.sampled_from([64, 128, 300, NUM_TOKENS])), min_size=1, max_size=4),
    num_others=st.integers(0, NUM_OTHERS),
    threads=st.integers(1, 4),
    offset=st.integers(0, 2),
    seed=st.integers(0, 2**16),
)


def play(scene: Scene, executable: Executable, expected: Answer) -> None:
    """Compute the request in the scene's steps, and compare each with what it got alone."""
    rng = np.random.default_rng(scene.seed)
    blocks = rng.permutation(NUM_BLOCKS).tolist()
    own, others_blocks = blocks[:MAX_BLOCKS], blocks[MAX_BLOCKS:]
    done, others_done = 0, [0] * scene.num_others
    for i in range(scene.num_tokens):
        if done == scene.num_tokens:
            break
        count = min(scene.chunks[i % len(scene.chunks)], scene.num_tokens - done)
        pieces = [Piece(TOKENS[done : done + count], done, own)]
        for other in rng.permutation(scene.num_others).tolist():
            others_done[other] = others_done[other] if others_done[other] < 60 else 0
            ids = rng.integers(0, VOCAB, int(rng.integers(1, 5))).tolist()
            pieces.append(Piece(ids, others_done[other], others_blocks[4 * other : 4 * other + 4]))
            others_done[other] += len(ids)
        place = int(rng.integers(0, len(pieces)))
        pieces.insert(place, pieces.pop(0))
        given = run(executable, pieces, place)
        check_equal(given, expected.rows(done, done + count), f"{scene}, tokens from {done} on")
        done += count


# Chosen ones first: every token for itself among 40 others; the split of 512 crossed by one token, by a chunk, by all.
@example(Scene("default", 40, [1], NUM_OTHERS, 3, 1, 0))
@example(Scene("default", NUM_TOKENS, [511, 1, 1, 17], 7, 4, 0, 1))
@example(Scene("exact", NUM_TOKENS, [500, 30], NUM_OTHERS, 2, 2, 2))
@example(Scene("wide", NUM_TOKENS, [NUM_TOKENS], 11, 4, 1, 3))
@example(Scene("wide head", 513, [512, 1], 1, 2, 0, 4))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scene=SCENES)
def test_nothing_around_a_request_changes_its_bits(model_file: Path, scene: Scene) -> None:
    executable = executable_of(model_file, scene.mode, scene.threads, scene.offset, get_isa())
    play(scene, executable, expected_answer(model_file, scene.mode, get_isa()))


def test_any_number_of_others_up_to_forty_and_every_thread_count(model_file: Path) -> None:
    expected = expected_answer(model_file, "default", get_isa())
    for num_others in range(NUM_OTHERS + 1):
        threads = 1 + num_others % 4
        executable = executable_of(model_file, "default", threads, 0, get_isa())
        play(Scene("default", 24, [20, 1], num_others, threads, 0, num_others), executable, expected)


def test_every_chunk_size(model_file: Path) -> None:
    expected = expected_answer(model_file, "default", get_isa())
    executable = executable_of(model_file, "default", 2, 0, get_isa())
    for chunk in range(1, 66):
        play(Scene("default", 65, [chunk], 0, 2, 0, chunk), executable, expected)


def test_modes_differ_and_tokens_are_not_all_the_same(model_file: Path) -> None:
    """The other tests would hold for a model that says nothing."""
    answers = [expected_answer(model_file, mode, get_isa()) for mode in MODES]
    assert len({answer.digest() for answer in answers}) == len(MODES)
    assert len(set(answers[0].token_ids_T.tolist())) > 20
    assert np.isfinite(answers[0].logits_TV).all()


def compiled_again(path: Path, mode: str) -> str:
    """A second program in this process."""
    return whole_answer(load(path, mode)).digest()


def in_another_process(path: Path, mode: str) -> str:
    """After a restart."""
    command = [sys.executable, "-m", "tests.backends.cpu.bitwise_model", str(path), mode, get_isa()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.strip()


WAYS: dict[str, Callable[[Path, str], str]] = {
    "compiled again": compiled_again,
    "after a restart": in_another_process,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_bits_do_not_depend_on_the_way_to_the_program(model_file: Path, way: str, mode: str) -> None:
    assert WAYS[way](model_file, mode) == expected_answer(model_file, mode, get_isa()).digest()


def load_demo(path: Path, num_threads: int) -> Executable:
    limits = Limits(
        max_num_batched_tokens=64,
        max_num_requests=8,
        max_num_logits_rows=64,
        block_size=BLOCK_SIZE,
        max_blocks_per_request=4,
        num_threads=num_threads,
    )
    executable = load_model(open_checkpoint(path), CpuBackend(), limits, 64).executable
    executable.bind_kv(KvPool(32, executable.kv_bytes_per_block).memory, 32)
    return executable


def test_the_demo_model_says_the_same_alone_and_among_others() -> None:
    path = where("demo")
    if path is None:
        pytest.skip("the demo model is not in the cache; python tools/fetch_models.py demo puts it there")
    ids = [9707, 11, 358, 1079, 264, 4128, 1614, 13, 3555, 374, 279, 6722, 315, 9625, 30, 576, 6722, 374]

    def answer(executable: Executable, pieces: list[tuple[list[int], int]], tables: list[list[int]]) -> np.ndarray:
        inputs = step(pieces, block_tables=tables, limits=replace(LIMITS, max_blocks_per_request=4))
        logits = executable.run(inputs, want_logits=True).logits_SV
        assert logits is not None
        return logits

    alone = answer(load_demo(path, 1), [(ids, 0)], [[3, 1]])
    executable = load_demo(path, 2)
    others = [(ids[i : i + 4], 0) for i in range(6)]
    tables = [[8 + i] for i in range(6)]
    together = answer(executable, [*others, (ids[:11], 0)], [*tables, [20, 21]])
    np.testing.assert_array_equal(together[24:], alone[:11])
    together = answer(executable, [(ids[11:], 11), *others], [[20, 21], *tables])
    np.testing.assert_array_equal(together[:7], alone[11:])
