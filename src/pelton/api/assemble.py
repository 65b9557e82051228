"""Puts an engine together: the one place where the control plane meets models, backends and devices.

Two halves. The half of the server opens the checkpoint for its sizes, tokenizer and defaults, and resolves the
configuration. The half of the engine (`make_engine`) gets that configuration as bytes, loads the weights and makes the
loop; it runs in a process of its own for servers and in the caller's for `LLM`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pelton.api.engine_command import ENGINE_COMMAND
from pelton.api.parts import EngineParts, ProgressCallback
from pelton.api.progress import in_steps
from pelton.api.stall import compute_stall_timeout_s
from pelton.backends.executable import Backend, Executable, Limits
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.checkpoint.contract import Checkpoint
from pelton.checkpoint.hub import resolve_model
from pelton.checkpoint.model_spec import ModelSpec
from pelton.checkpoint.recode import held_bytes
from pelton.config.decision import Decision
from pelton.config.env import get_environment
from pelton.config.hardware import probe_hardware
from pelton.config.model_facts import ModelFacts
from pelton.config.resolve import resolve
from pelton.config.schema import EngineConfig, RunnerConfig
from pelton.config.user_config import UserConfig
from pelton.core.messages import EngineFacts
from pelton.engine.client import EngineClient
from pelton.engine.inprocess_client import InProcessClient
from pelton.engine.limits import SchedulerLimits
from pelton.engine.loop import EngineLoop
from pelton.engine.process_client import ProcessClient
from pelton.engine.scheduler import Scheduler
from pelton.engine.started import Started
from pelton.engine.supervisor import Patience
from pelton.errors import ConfigError
from pelton.kvcache.block_pool import BlockPool
from pelton.loading import load_model
from pelton.observability.log import Log
from pelton.oracle.checkpoint import END_TOKEN_ID, write_checkpoint
from pelton.oracle.checkpoint import NAME as ORACLE_NAME
from pelton.runner.direct_step import LogitsReader, stream_logits
from pelton.runner.kv_pool import KvPool
from pelton.runner.model_runner import ModelRunner
from pelton.tokenization import Tokenizer, make_tokenizer
from pelton.tokenization.chat import Chat
from pelton.tokenization.chat_template import TemplateWorker

if TYPE_CHECKING:
    from pelton.backends.cpu.weight_cache import WeightCache

KV_LANES = 32  # the native attention kernel pads a head to whole lanes of this many numbers
KV_SCALE_BYTES = 4  # of an int8 cache, for each token and head
log = Log("api")

Report = Callable[[str, float], None]


class EngineSetup(msgspec.Struct, frozen=True):
    """What the engine process is told: where the model lies, and everything that was decided."""

    path: str
    config: EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A model that has been looked at and configured, and not loaded."""

    checkpoint: Checkpoint
    asked: UserConfig
    config: EngineConfig
    decisions: tuple[Decision, ...]
    chat_template: str | None  # what was asked for in place of the model's own

    @property
    def setup(self) -> EngineSetup:
        """What the engine's half needs."""
        return EngineSetup(str(self.checkpoint.path), self.config)

    @property
    def stall_timeout_s(self) -> float:
        """How long a step of the engine may take before it counts as stuck."""
        isa = get_environment().isa or probe_hardware().isa
        weight_bytes = held_bytes(self.checkpoint.tensors.values())
        return compute_stall_timeout_s(self.checkpoint.spec, weight_bytes, self.config, isa)


def open_model(asked: UserConfig, on_progress: ProgressCallback | None = None) -> Opened:
    """Find, open and configure the model that `asked` names; a name that stands for a download is downloaded."""
    if on_progress is not None:
        on_progress("finding the model", 0.0)
    chat_template = read_chat_template(asked)
    checkpoint = open_checkpoint(find_model(asked))
    config, decisions = resolve(asked, get_model_facts(checkpoint, asked), probe_hardware())
    return Opened(checkpoint=checkpoint, asked=asked, config=config, decisions=decisions, chat_template=chat_template)


def find_model(asked: UserConfig) -> Path:
    """Where the model lies; an executor without one may bring a checkpoint of its own."""
    name = str(asked.get("model"))
    if asked.get("executor") != "model" and name == ORACLE_NAME:
        return write_checkpoint(get_environment().cache_dir / ORACLE_NAME)
    return resolve_model(name)


def read_chat_template(asked: UserConfig) -> str | None:
    """The text of the file that is asked for as the chat template. Raises ConfigError if it cannot be read."""
    path = asked.get("chat_template")
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{asked.where('chat_template')}: {path} cannot be read as text ({why}). "
            "Give a UTF-8 file with a Jinja template, or leave it out for the model's own."
        ) from error


def get_model_facts(checkpoint: Checkpoint, asked: UserConfig) -> ModelFacts:
    """The sizes that configuration needs."""
    spec = checkpoint.spec
    is_reference = asked.get("backend") == "reference"
    float_bytes = 8 if is_reference and asked.get("dtype") == "float64" else 4
    weight_bytes = held_bytes(checkpoint.tensors.values())
    if is_reference:
        weight_bytes = float_bytes * sum(math.prod(info.shape) for info in checkpoint.tensors.values())
    return ModelFacts(
        name=spec.architecture,
        max_position=spec.max_position,
        vocab_size=spec.vocab_size,
        hidden_size=spec.hidden_size,
        num_layers=spec.num_layers,
        weight_bytes=weight_bytes,
        weight_dtype=spec.weight_dtype,
        kv_bytes_per_token=2
        * spec.num_layers
        * spec.num_kv_heads
        * compute_head_bytes(spec.head_dim, asked, float_bytes),
    )


def compute_head_bytes(head_dim: int, asked: UserConfig, float_bytes: int) -> int:
    """Bytes of the keys or the values of one token and head in the cache."""
    if asked.get("backend") == "reference":
        return head_dim * float_bytes  # rounded numbers are kept as floats
    padded = -(-head_dim // KV_LANES) * KV_LANES
    kv_dtype = asked.get("kv_cache_dtype")
    if kv_dtype == "int8":
        return padded + KV_SCALE_BYTES
    return padded * (4 if kv_dtype == "float32" or (kv_dtype != "bfloat16" and asked.get("exact")) else 2)


def make_backend(
    name: str,
    dtype: str = "float32",
    *,
    cache: WeightCache | None = None,
    on_fraction: Callable[[float], None] | None = None,
) -> Backend:
    """The backend called `name`. Raises BackendError if this build or machine cannot run it.

    `on_fraction` hears how much of the weights is there, from `cache` or packed. The reference takes no notice of both.
    """
    if name == "reference":
        from pelton.backends.reference import ReferenceBackend  # noqa: PLC0415  only what is used is loaded

        return ReferenceBackend("float64" if dtype == "float64" else "float32")
    from pelton.backends.cpu import CpuBackend  # noqa: PLC0415
    from pelton.backends.cpu.isa import set_isa  # noqa: PLC0415

    isa = get_environment().isa
    if isa is not None:
        set_isa(isa)
    return CpuBackend(cache, on_fraction)


def make_weight_cache(checkpoint: Checkpoint, runner: RunnerConfig) -> WeightCache | None:
    """The cache of packed weights that was asked for, as far as it concerns `checkpoint`; None if there is none."""
    if runner.backend != "cpu" or runner.weight_cache == "off":
        return None
    from pelton.backends.cpu.weight_cache import WeightCache  # noqa: PLC0415

    return WeightCache(find_weight_folder(runner.weight_cache), runner.weight_cache_bytes, checkpoint.files)


def find_weight_folder(asked: str) -> Path:
    """The folder that a value of `weight_cache` means."""
    return get_environment().cache_dir / "packed" if asked == "auto" else Path(asked).expanduser()


def make_limits(config: EngineConfig) -> Limits:
    """The sizes that the executable is compiled for."""
    block_size = config.cache.block_size
    return Limits(
        max_num_batched_tokens=config.scheduler.max_num_batched_tokens,
        max_num_requests=config.scheduler.max_num_requests,
        max_num_logits_rows=config.scheduler.max_num_requests,
        block_size=block_size,
        max_blocks_per_request=-(-config.model.max_model_len // block_size),
        num_threads=config.runner.num_threads,
        max_num_logprobs=config.server.max_logprobs,
        wide_activations=config.model.wide_activations,
        exact=config.model.exact,
        kv_dtype=config.cache.kv_cache_dtype,
    )


def make_loop(
    checkpoint: Checkpoint, config: EngineConfig, report: Report, *, is_interactive: bool = False
) -> EngineLoop:
    """Load the weights and make the engine loop around them.

    If it `is_interactive`, somebody watches tokens come, and prompts of others must not hold them up.
    """
    return make_measured_loop(checkpoint, config, report, is_interactive=is_interactive)[0]


def make_measured_loop(
    checkpoint: Checkpoint, config: EngineConfig, report: Report, *, is_interactive: bool = False
) -> tuple[EngineLoop, Executable]:
    """The engine loop, and the executable in it for whoever wants its profile."""
    report("loading weights", 0.1)
    backend = make_backend(
        config.runner.backend,
        config.model.dtype,
        cache=make_weight_cache(checkpoint, config.runner),
        on_fraction=in_steps(lambda fraction: report("loading weights", 0.1 + 0.8 * fraction)),
    )
    loaded = load_model(checkpoint, backend, make_limits(config), config.model.max_model_len)
    report("allocating the KV cache", 0.9)
    loop = make_loop_around(loaded.executable, config, loaded.spec.vocab_size, is_interactive=is_interactive)
    return loop, loaded.executable


def make_loop_around(
    executable: Executable, config: EngineConfig, vocab_size: int, *, is_interactive: bool = False
) -> EngineLoop:
    """The engine loop of an executable compiled for make_limits(config), with a cache of its own."""
    free_bytes = probe_hardware().available_memory_bytes  # now that the weights are there
    pool = KvPool(config.cache.num_blocks, executable.kv_bytes_per_block, free_bytes)
    runner = ModelRunner(
        executable,
        make_limits(config),
        pool,
        max_model_len=config.model.max_model_len,
        vocab_size=vocab_size,
        server_seed=config.model.seed,
    )
    scheduler = make_scheduler(config, vocab_size, executable.max_repeat, is_interactive=is_interactive)
    return EngineLoop(scheduler, runner)


def make_oracle_loop(config: EngineConfig, spec: ModelSpec) -> EngineLoop:
    """The engine loop of an executor that has no model, on a cache of the same number of blocks."""
    from pelton.oracle.executor import make_executor  # noqa: PLC0415  only tests use it

    end_token_id = spec.vocab_size - 1 if spec.vocab_size <= END_TOKEN_ID else END_TOKEN_ID
    executor = make_executor(config.runner.executor, config.cache.num_blocks, config.cache.block_size, end_token_id)
    return EngineLoop(make_scheduler(config, spec.vocab_size, executor.max_repeat, is_interactive=True), executor)


def make_scheduler(config: EngineConfig, vocab_size: int, max_repeat: int, *, is_interactive: bool) -> Scheduler:
    """The scheduler of an executor that can repeat a step `max_repeat` times."""
    target_itl_s = config.scheduler.target_itl_ms / 1000
    if target_itl_s == 0.0 and not is_interactive:
        target_itl_s = math.inf
    return Scheduler(
        SchedulerLimits(
            max_num_batched_tokens=config.scheduler.max_num_batched_tokens,
            max_prefill_chunk=config.scheduler.max_prefill_chunk,
            max_num_requests=config.scheduler.max_num_requests,
            max_model_len=config.model.max_model_len,
            vocab_size=vocab_size,
            enable_prefix_caching=config.cache.enable_prefix_caching,
            target_itl_s=target_itl_s,
            max_repeat=max_repeat,
        ),
        BlockPool(config.cache.num_blocks, config.cache.block_size),
    )


def make_logits_reader(
    opened: Opened, backend: str, *, window: int, chunk: int, kv_dtype: str = "auto"
) -> LogitsReader:
    """A function from the token ids of one text (at most `window`) to their logits, in pieces of `chunk` rows."""
    config, block_size = opened.config, opened.config.cache.block_size
    num_blocks = -(-window // block_size)
    limits = Limits(
        max_num_batched_tokens=chunk,
        max_num_requests=1,
        max_num_logits_rows=chunk,
        block_size=block_size,
        max_blocks_per_request=num_blocks,
        num_threads=config.runner.num_threads,
        wide_activations=config.model.wide_activations,
        exact=config.model.exact,
        kv_dtype=kv_dtype,
    )
    executable = load_model(opened.checkpoint, make_backend(backend), limits, window).executable
    pool = KvPool(num_blocks, executable.kv_bytes_per_block)
    executable.bind_kv(pool.memory, num_blocks)
    blocks = list(range(num_blocks))
    return lambda token_ids: stream_logits(executable, token_ids, blocks, chunk=chunk, max_blocks=num_blocks)


def make_engine(setup_bytes: bytes, report: Report) -> tuple[EngineLoop, EngineFacts]:
    """The engine's half, from the bytes of an EngineSetup."""
    setup = msgspec.msgpack.decode(setup_bytes, type=EngineSetup)
    checkpoint = open_checkpoint(Path(setup.path))
    if setup.config.runner.executor == "model":
        engine = make_loop(checkpoint, setup.config, report, is_interactive=True)
    else:
        engine = make_oracle_loop(setup.config, checkpoint.spec)
    details = {"backend": setup.config.runner.backend, "threads": str(setup.config.runner.num_threads)}
    return engine, engine.make_facts(details)


async def start_in_process(asked: UserConfig, on_progress: ProgressCallback | None = None) -> EngineParts:
    """An engine in this process, on a thread of its own: for `LLM` and `AsyncLLM`."""
    opened = await asyncio.to_thread(open_model, asked, on_progress)
    report = on_progress or _ignore_progress
    source = opened.checkpoint.tokenizer_source
    # Weights are packed without the GIL, which the tokenizer is built with.
    making = asyncio.create_task(asyncio.to_thread(make_tokenizer, source))
    try:
        engine = await asyncio.to_thread(make_loop, opened.checkpoint, opened.config, report)
    finally:
        await asyncio.wait([making])
    try:
        tokenizer = making.result()
    except BaseException:
        engine.close()
        raise
    client = InProcessClient(engine, stall_timeout_s=opened.stall_timeout_s)
    return make_parts(opened, client, client.facts, tokenizer)


async def start_in_child(
    opened: Opened, on_progress: ProgressCallback | None = None, started: Started | None = None
) -> EngineParts:
    """An engine in a process of its own: for servers. The tokenizer is built while the engine loads.

    `started` is the process, if there is one already; it is taken over.
    """
    patience = Patience(stall_timeout_s=opened.stall_timeout_s)
    client = ProcessClient(ENGINE_COMMAND, msgspec.msgpack.encode(opened.setup), patience, started)
    starting = asyncio.create_task(client.start(on_progress))
    try:
        making = asyncio.to_thread(make_tokenizer, opened.checkpoint.tokenizer_source)
        tokenizer, facts = await asyncio.gather(making, starting)
    except BaseException:
        starting.cancel()
        await client.close()
        raise
    return make_parts(opened, client, facts, tokenizer)


def make_parts(opened: Opened, client: EngineClient, facts: EngineFacts, tokenizer: Tokenizer) -> EngineParts:
    """The engine with what text needs around it."""
    source = opened.checkpoint.tokenizer_source
    worker = TemplateWorker()
    template, named = source.chat_template, source.chat_templates
    if opened.chat_template is not None:
        template, named = opened.chat_template, {}

    def close() -> None:
        worker.close()
        opened.checkpoint.close()

    generation = opened.checkpoint.generation
    if generation.not_followed and opened.config.model.generation_config == "auto":
        log.warning("generation_config.json asks for what is not done", fields=", ".join(generation.not_followed))
    return EngineParts(
        client=client,
        facts=facts,
        asked=opened.asked,
        config=opened.config,
        decisions=opened.decisions,
        tokenizer=tokenizer,
        chat=Chat(tokenizer, worker, template, named),
        generation=generation,
        close=close,
    )


def _ignore_progress(_stage: str, _fraction: float) -> None:
    """Nobody watches."""
