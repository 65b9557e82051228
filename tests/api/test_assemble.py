"""Engines put together from a tiny model: the parts agree with each other, and tokens come out."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.fakes import VOCAB_SIZE, TinyModel

from pelton.api import assemble
from pelton.api.assemble import (
    get_model_facts,
    make_backend,
    make_engine,
    make_limits,
    make_logits_reader,
    make_loop,
    open_model,
    start_in_child,
    start_in_process,
)
from pelton.api.engine_command import ENGINE_COMMAND
from pelton.api.parts import EngineParts
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.config.hardware import probe_hardware
from pelton.config.user_config import UserConfig, ask
from pelton.core.sampling_params import SamplingParams
from pelton.core.step import NewRequest, RequestId
from pelton.engine.process_client import ProcessClient
from pelton.engine.started import Started, start_process
from pelton.engine.supervisor import Patience
from pelton.errors import CheckpointError, ConfigError
from pelton.loading import load_model
from pelton.tokenization import Tokenizer

pytestmark = pytest.mark.cpu

PROMPT = tuple(b"To be, or not to be")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TinyModel().write(tmp_path_factory.mktemp("assemble") / "tiny")


def small(folder: Path, **more: object) -> UserConfig:
    """A small pool and few threads, so that an engine starts at once."""
    sizes = {"num_threads": 1, "max_num_requests": 2, "kv_cache_memory_bytes": 2**20, "max_model_len": 128}
    return ask(model=str(folder), **(sizes | more))


def ignore(_stage: str, _fraction: float) -> None:
    """Nobody watches."""


def request(name: str) -> NewRequest:
    sampling = SamplingParams(temperature=0.0, max_tokens=6, ignore_eos=True)
    return NewRequest(request_id=RequestId(name), prompt_token_ids=PROMPT, sampling=sampling)


async def generate(parts: EngineParts) -> list[int]:
    return [token async for output in parts.client.generate(request("r")) for token in output.token_ids]


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # type: ignore[arg-type]


@asynccontextmanager
async def closing(parts: EngineParts) -> AsyncIterator[EngineParts]:
    try:
        yield parts
    finally:
        await parts.client.close()
        parts.close()


@pytest.mark.parametrize(
    ("asked", "kv_bytes", "float_bytes"),
    [
        ({}, 1024, 4),  # 4 layers, keys and values, 2 heads of 16 padded to 32, in bfloat16
        ({"exact": True}, 2048, 4),
        ({"kv_cache_dtype": "float32"}, 2048, 4),
        ({"kv_cache_dtype": "int8"}, 4 * 2 * 2 * (32 + 4), 4),  # a scale for each token and head
        ({"kv_cache_dtype": "int8", "exact": True}, 4 * 2 * 2 * (32 + 4), 4),
        ({"kv_cache_dtype": "bfloat16", "exact": True}, 1024, 4),
        ({"kv_cache_dtype": "int8", "backend": "reference"}, 1024, 4),  # rounded, and kept as floats
        ({"backend": "reference"}, 1024, 4),  # heads are as they are
        ({"backend": "reference", "dtype": "float64"}, 2048, 8),
    ],
)
def test_facts_of_a_model(folder: Path, asked: dict[str, object], kv_bytes: int, float_bytes: int) -> None:
    """The cache is counted as the executable does."""
    wanted = small(folder, **asked)
    opened = open_model(wanted)
    facts = get_model_facts(opened.checkpoint, wanted)
    assert (facts.name, facts.vocab_size, facts.hidden_size, facts.num_layers) == ("llama", VOCAB_SIZE, 64, 4)
    assert facts.max_position == 512
    assert facts.weight_bytes == float_bytes * sum(int(np.prod(shape)) for shape in TinyModel().shapes().values())
    assert facts.kv_bytes_per_token == kv_bytes
    config = opened.config
    backend = make_backend(config.runner.backend, config.model.dtype)
    loaded = load_model(opened.checkpoint, backend, make_limits(config), config.model.max_model_len)
    assert loaded.executable.kv_bytes_per_block == kv_bytes * config.cache.block_size
    opened.checkpoint.close()


def test_the_reference_keeps_its_weights_in_float32(tmp_path: Path) -> None:
    with open_checkpoint(TinyModel(dtype="BF16").write(tmp_path)) as checkpoint:
        native = get_model_facts(checkpoint, ask(model="x"))
        reference = get_model_facts(checkpoint, ask(model="x", backend="reference"))
    assert reference.weight_bytes == 2 * native.weight_bytes


def test_limits_hold_what_the_scheduler_may_do(folder: Path) -> None:
    asked = small(folder, max_model_len=100, block_size=32, max_num_batched_tokens=50, wide_activations="head")
    opened = open_model(asked)
    opened.checkpoint.close()
    limits = make_limits(opened.config)
    assert (limits.max_num_batched_tokens, limits.max_num_requests, limits.max_num_logits_rows) == (50, 2, 2)
    assert (limits.block_size, limits.max_blocks_per_request) == (32, 4)
    assert (limits.num_threads, limits.max_num_logprobs, limits.wide_activations, limits.exact) == (
        1,
        20,
        "head",
        False,
    )


def test_opening_says_what_was_decided(folder: Path) -> None:
    stages: list[str] = []
    opened = open_model(small(folder), lambda stage, _fraction: stages.append(stage))
    opened.checkpoint.close()
    assert stages == ["finding the model"]
    assert opened.config.model.max_model_len == 128
    assert "max_model_len" not in {decision.field for decision in opened.decisions}
    assert opened.setup.path == str(folder)
    assert opened.chat_template is None


def test_an_engine_from_bytes(folder: Path) -> None:
    opened = open_model(small(folder))
    stages: list[tuple[str, float]] = []
    engine, facts = make_engine(msgspec.msgpack.encode(opened.setup), lambda *stage: stages.append(stage))
    assert list(dict.fromkeys(stage for stage, _ in stages)) == ["loading weights", "allocating the KV cache"]
    fractions = [fraction for _, fraction in stages]
    assert fractions == sorted(fractions)
    assert len(fractions) > 4
    assert facts.details == {"backend": "cpu", "threads": "1"}
    assert (facts.max_model_len, facts.vocab_size) == (128, VOCAB_SIZE)
    assert facts.block_size * facts.num_blocks == 1024
    outputs = list(engine.run([request("r")]))
    assert sum(len(output.token_ids) for output in outputs) == 6
    assert outputs[-1].finish_reason == "length"
    engine.close()
    opened.checkpoint.close()


def test_engines_here_and_in_a_child_give_the_same_tokens(folder: Path) -> None:
    async def test() -> None:
        async with closing(await start_in_process(small(folder))) as here:
            tokens = await generate(here)
            prompt = await asyncio.to_thread(here.chat.make_prompt, [{"role": "user", "content": "Hi"}])
            assert prompt.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        async with closing(await start_in_child(open_model(small(folder)))) as there:
            assert await generate(there) == tokens
            assert there.facts.details["backend"] == "cpu"
            assert there.tokenizer.decode(PROMPT) == "To be, or not to be"
        assert len(tokens) == 6

    run(test)


def test_a_chat_template_replaces_all_of_the_models_own(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "template.jinja"
    file.write_text("<{{ messages[0]['content'] }}>", encoding="utf-8")

    async def test() -> None:
        async with closing(await start_in_process(small(folder, chat_template=str(file)))) as parts:
            for tools in (None, [{"type": "function"}]):
                make = parts.chat.make_prompt
                prompt = await asyncio.to_thread(make, [{"role": "user", "content": "Hi"}], tools=tools)
                assert prompt.text == "<Hi>"

    run(test)


@pytest.mark.parametrize("choice", ["auto", "neutral"])
def test_sampling_defaults_that_are_not_followed_are_told(
    folder: Path, tmp_path: Path, choice: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    (model / "generation_config.json").write_text('{"no_repeat_ngram_size": 3}', encoding="utf-8")

    async def test() -> None:
        async with closing(await start_in_process(small(model, generation_config=choice))):
            pass

    run(test)
    told = [record for record in caplog.records if "asks for what is not done" in record.message]
    assert len(told) == (choice == "auto")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_chat_template_that_cannot_be_read_is_told_before_anything_is_loaded(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "template.jinja"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(
        ConfigError, match=r"^chat_template: \S*template\.jinja cannot be read as text \(.*Give a UTF-8"
    ):
        open_model(ask(model="/no/such/model", chat_template=str(file)))


def test_a_cache_that_does_not_fit_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_model(small(folder))
    taken = replace(probe_hardware(), available_memory_bytes=2**19)  # somebody else was faster
    monkeypatch.setattr(assemble, "probe_hardware", lambda: taken)
    with pytest.raises(ConfigError, match=r"KV cache: 32 blocks need .* are free"):
        make_loop(opened.checkpoint, opened.config, ignore)
    opened.checkpoint.close()


@pytest.mark.parametrize("is_tokenizer_bad", [False, True])
def test_an_engine_that_cannot_start_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_tokenizer_bad: bool
) -> None:
    clients: list[ProcessClient] = []

    def make_client(command: Sequence[str], config: bytes, patience: Patience, first: Started | None) -> ProcessClient:
        clients.append(ProcessClient(command, config, patience, first))
        return clients[-1]

    def refuse(_source: object) -> Tokenizer:
        raise CheckpointError("a tokenizer of model.safetensors")

    monkeypatch.setattr(assemble, "ProcessClient", make_client)
    folder = TinyModel().write(tmp_path / "tiny")
    opened = open_model(small(folder))
    if is_tokenizer_bad:
        monkeypatch.setattr(assemble, "make_tokenizer", refuse)
    else:
        (folder / "model.safetensors").unlink()

    started = start_process(ENGINE_COMMAND)

    async def test() -> None:
        with pytest.raises(CheckpointError, match="safetensors"):
            await start_in_child(opened, started=started)
        assert [client.engine_pid for client in clients] == [None]
        assert not started.is_running

    run(test)
    opened.checkpoint.close()


@pytest.mark.parametrize("chunk", [5, 64])
def test_logits_of_a_text(folder: Path, chunk: int) -> None:
    opened = open_model(small(folder, exact=True))
    native = make_logits_reader(opened, "cpu", window=40, chunk=chunk)
    reference = make_logits_reader(opened, "reference", window=40, chunk=64)
    text = [*PROMPT, *PROMPT]
    expected = np.concatenate(list(reference(text)))
    assert expected.shape == (len(text), VOCAB_SIZE)
    pieces = list(native(text))
    assert [len(piece) for piece in pieces[:-1]] == [chunk] * (len(pieces) - 1)
    actual = np.concatenate(pieces)
    np.testing.assert_allclose(actual, expected, atol=1e-4 * float(np.abs(expected).max()))
    np.testing.assert_array_equal(np.concatenate(list(native(text))), actual)
    opened.checkpoint.close()
