"""What text costs around the engine: tokens of a prompt, the chat template, a token's text, the event around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pelton.api.output import TextDelta
from pelton.bench.record import Row
from pelton.checkpoint.contract import Checkpoint
from pelton.server.chat import ChatShape
from pelton.server.chat_schema import ChatRequest
from pelton.server.event_stream import encode_event
from pelton.tokenization import Tokenizer, make_tokenizer
from pelton.tokenization.chat import Chat
from pelton.tokenization.chat_template import TemplateWorker
from pelton.tokenization.detokenizer import Detokenizer

REPEATS = 7
MESSAGES = (
    {"role": "system", "content": "You are a careful engineer."},
    {"role": "user", "content": "Write a function that merges two sorted lists, and say what it costs."},
)


@dataclass(frozen=True, slots=True)
class Server:
    """What chunks say of the server."""

    model_name: str = "model"
    fingerprint: str = "pelton-bench"


def measure_text(checkpoint: Checkpoint, text: str) -> Iterator[Row]:
    """A row for each of them, on the tokenizer and the template of `checkpoint`."""
    tokenizer = make_tokenizer(checkpoint.tokenizer_source)
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    yield measure_encode(tokenizer, text, len(token_ids))
    yield measure_detokenize(tokenizer, token_ids)
    if checkpoint.tokenizer_source.chat_template is not None:
        yield from measure_template(tokenizer, checkpoint.tokenizer_source.chat_template)
    yield measure_events()


def measure_encode(tokenizer: Tokenizer, text: str, num_tokens: int) -> Row:
    """Text to token ids."""
    seconds = best_of(lambda: tokenizer.encode(text, add_special_tokens=False))
    return {
        "what": "tokenize",
        "us": 1e6 * seconds * 1000 / num_tokens,
        "per": "1000 tokens",
        "mb_per_s": len(text.encode()) / seconds / 1e6,
    }


def measure_detokenize(tokenizer: Tokenizer, token_ids: list[int]) -> Row:
    """Token ids to text, one at a time, as a stream does."""

    def run() -> None:
        detokenizer = Detokenizer(tokenizer)
        for token_id in token_ids:
            detokenizer.push(token_id)
        detokenizer.finish()

    return {"what": "detokenize", "us": 1e6 * best_of(run) / len(token_ids), "per": "token"}


def measure_template(tokenizer: Tokenizer, template: str) -> Iterator[Row]:
    """A conversation to token ids: the first time, when the template process starts, and later."""
    with TemplateWorker() as worker:
        chat = Chat(tokenizer, worker, template)
        start_s = time.perf_counter()
        chat.make_prompt(MESSAGES)
        yield {"what": "chat template, first", "us": 1e6 * (time.perf_counter() - start_s), "per": "request"}
        yield {"what": "chat template", "us": 1e6 * best_of(lambda: chat.make_prompt(MESSAGES)), "per": "request"}


def measure_events(num_tokens: int = 1000) -> Row:
    """The chunk of a chat stream that carries a token, as bytes."""
    shape = ChatShape(Server(), "chatcmpl-bench", ChatRequest(), ())
    delta = TextDelta(index=0, text=" word", token_ids=(17,))

    def run() -> None:
        for _ in range(num_tokens):
            for choice in shape.make_choices(delta, False):
                encode_event(shape.make_chunk([choice]))

    return {"what": "stream event", "us": 1e6 * best_of(run) / num_tokens, "per": "token"}


def best_of(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least seconds that `run` took."""
    times = []
    for _ in range(repeats):
        start_s = time.perf_counter()
        run()
        times.append(time.perf_counter() - start_s)
    return min(times)
