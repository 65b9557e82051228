"""L3: what goes into the model and comes out of it as text: ids, decoding, templates, ends and sampling defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pelton.checkpoint.contract import Checkpoint, GenerationDefaults
from pelton.conversion.spec_loss import is_close
from pelton.errors import EngineError
from pelton.tokenization import Tokenizer, make_tokenizer
from pelton.tokenization.chat import Chat
from pelton.tokenization.chat_template import TemplateWorker
from pelton.tokenization.detokenizer import Detokenizer
from pelton.verification.conversations import list_conversations
from pelton.verification.corpus import list_runs, list_texts
from pelton.verification.finding import Finding, Weight

NUM_SHOWN = 20


@dataclass(slots=True)
class TextRecord:
    """How much was compared, and the first differences."""

    num_texts: int = 0
    num_runs: int = 0
    num_conversations: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)


def compare_texts(
    ours: Checkpoint, theirs: Checkpoint, on_step: Callable[[int], None]
) -> tuple[TextRecord, list[Finding]]:
    """Everything of the level."""
    record = TextRecord()
    if not (ours.has_tokenizer and theirs.has_tokenizer):
        missing = [side for side, each in (("source", ours), ("target", theirs)) if not each.has_tokenizer]
        weight: Weight = "note" if len(missing) == 2 else "fails"
        return record, [Finding("L3.TOKENIZER", f"the {' and the '.join(missing)} has no tokenizer", weight)]
    tokenizers: list[Tokenizer] = []
    for side, checkpoint in (("source", ours), ("target", theirs)):
        try:
            tokenizers.append(make_tokenizer(checkpoint.tokenizer_source))
        except EngineError as error:
            return record, [Finding(f"L3.TOKENIZER:{side}", str(error))]
    a, b = tokenizers
    findings = [
        *_compare_ids(a, b, record, on_step),
        *_compare_decoding(a, b, record),
        *_compare_special(a, b),
        *_compare_defaults(ours, theirs, a, b),
        *_compare_templates(ours, theirs, a, b, record),
    ]
    return record, findings


def _compare_ids(a: Tokenizer, b: Tokenizer, record: TextRecord, on_step: Callable[[int], None]) -> Iterator[Finding]:
    decoded = (a.decode([id_]) for id_ in range(0, a.vocab_size, max(1, a.vocab_size // 5000)))
    special = [a.decode([id_], skip_special_tokens=False) for id_ in a.special_ids]
    texts = list_texts((text for text in decoded if text), special)
    record.num_texts = len(texts)
    unequal = []
    for add in (True, False):
        for text, ours, theirs in zip(
            texts,
            a.encode_batch(texts, add_special_tokens=add),
            b.encode_batch(texts, add_special_tokens=add),
            strict=True,
        ):
            if ours != theirs:
                unequal.append(text)
                _show(record, "ids", text, ours, theirs)
        on_step(len(texts))
    if unequal:
        shortest = min(unequal, key=len)
        yield Finding(
            "L3.IDS", f"{len(set(unequal))} of {len(texts)} texts have other ids, the shortest is {shortest[:60]!r}"
        )


def _compare_decoding(a: Tokenizer, b: Tokenizer, record: TextRecord) -> Iterator[Finding]:
    size = min(a.vocab_size, b.vocab_size)
    if a.vocab_size != b.vocab_size:
        yield Finding("L3.VOCABULARY", f"the source has {a.vocab_size} tokens and the target {b.vocab_size}", "note")
    unequal = [id_ for id_ in range(size) if a.token_bytes(id_) != b.token_bytes(id_)]
    for id_ in unequal[:NUM_SHOWN]:
        _show(record, "token", str(id_), a.token_bytes(id_), b.token_bytes(id_))
    if unequal:
        yield Finding("L3.TOKENS", f"{len(unequal)} tokens stand for other bytes, the first is {unequal[0]}")
    streams = 0
    for run in list_runs(size):
        record.num_runs += 1
        for skips in (True, False):
            texts = [each.decode(run, skip_special_tokens=skips) for each in (a, b)]
            texts += [_stream(each, run, skips) for each in (a, b)]
            if len(set(texts)) > 1:
                streams += 1
                _show(record, "decoding", str(run), texts[0], texts[1])
    if streams:
        yield Finding("L3.DECODING", f"{streams} sequences of ids give other texts, whole or streamed")


def _stream(tokenizer: Tokenizer, run: list[int], skips: bool) -> str:
    detokenizer = Detokenizer(tokenizer, skip_special_tokens=skips)
    return "".join([*(detokenizer.push(id_) for id_ in run), detokenizer.finish()])


def _compare_special(a: Tokenizer, b: Tokenizer) -> Iterator[Finding]:
    for name, ours, theirs in (
        ("bos_token_id", a.bos_token_id, b.bos_token_id),
        ("eos_token_id", a.eos_token_id, b.eos_token_id),
        ("special", sorted(a.special_ids), sorted(b.special_ids)),
    ):
        if ours != theirs:
            yield Finding(
                f"L3.SPECIAL:{name}", f"{name} is {_cut(ours)} in the source and {_cut(theirs)} in the target"
            )


def _compare_defaults(ours: Checkpoint, theirs: Checkpoint, a: Tokenizer, b: Tokenizer) -> Iterator[Finding]:
    ends = [
        sorted({*checkpoint.generation.eos_token_ids, *tokenizer.end_token_ids})
        for checkpoint, tokenizer in ((ours, a), (theirs, b))
    ]
    if ends[0] != ends[1]:
        yield Finding("L3.ENDS:eos_token_id", f"texts end at {ends[0]} in the source and at {ends[1]} in the target")
    for each in fields(GenerationDefaults):
        one, two = getattr(ours.generation, each.name), getattr(theirs.generation, each.name)
        if each.compare and each.name not in ("eos_token_ids", "bos_token_id") and not is_close(one, two):
            yield Finding(f"L3.DEFAULT:{each.name}", f"{each.name} is {one} in the source and {two} in the target")


def _compare_templates(
    ours: Checkpoint, theirs: Checkpoint, a: Tokenizer, b: Tokenizer, record: TextRecord
) -> Iterator[Finding]:
    templates = [_templates(checkpoint) for checkpoint in (ours, theirs)]
    if templates[0].keys() != templates[1].keys():
        unequal = sorted(templates[0].keys() ^ templates[1].keys())
        yield Finding("L3.TEMPLATE:chat_template", f"only one side has the template {', '.join(unequal)}")
        return
    if templates[0] != templates[1]:
        yield Finding("L3.TEMPLATE_TEXT:chat_template", "the templates are not the same text", "note")
    if not templates[0]:
        return
    unequal_prompts = 0
    with TemplateWorker() as worker:
        for name in templates[0]:
            chats = [
                Chat(tokenizer, worker, each[name], {}) for tokenizer, each in ((a, templates[0]), (b, templates[1]))
            ]
            for conversation in list_conversations():
                record.num_conversations += 1
                prompts = [_render(chat, conversation) for chat in chats]
                if prompts[0] != prompts[1]:
                    unequal_prompts += 1
                    _show(record, f"template {name}", str(conversation)[:200], prompts[0], prompts[1])
    if unequal_prompts:
        yield Finding(
            "L3.PROMPTS:chat_template",
            f"{unequal_prompts} of {record.num_conversations} conversations give other prompts",
        )


def _templates(checkpoint: Checkpoint) -> dict[str, str]:
    source = checkpoint.tokenizer_source
    default = {} if source.chat_template is None else {"default": source.chat_template}
    return {**default, **source.chat_templates}


def _render(chat: Chat, conversation: Mapping[str, Any]) -> tuple[str, list[int]]:
    """The prompt, or what the template says against it."""
    try:
        prompt = chat.make_prompt(**conversation)
    except EngineError as error:
        return f"refused: {error}", []
    return prompt.text, prompt.token_ids


def _show(record: TextRecord, kind: str, of: str, ours: object, theirs: object) -> None:
    if len(record.examples) < NUM_SHOWN:
        record.examples.append({"kind": kind, "of": of[:200], "source": _cut(ours), "target": _cut(theirs)})


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
