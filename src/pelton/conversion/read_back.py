"""What a target says differently of the model than its source, when the reader that serves it opens it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pelton.checkpoint.contract import Checkpoint, GenerationDefaults
from pelton.checkpoint.gguf.checkpoint import GgufCheckpoint
from pelton.checkpoint.hf.checkpoint import HfCheckpoint
from pelton.checkpoint.model_spec import ModelSpec
from pelton.conversion.hf_tokenizer_files import list_ends, open_tokenizer
from pelton.conversion.result import Loss
from pelton.conversion.sample_text import list_samples
from pelton.conversion.spec_loss import compare_specs, is_close


def compare(source: Checkpoint, part: Path, spec: ModelSpec) -> Iterator[Loss]:
    """Differences of model, ends of texts, tokens and templates. `spec` is what the target should say."""
    target: Checkpoint = HfCheckpoint(part) if part.is_dir() else GgufCheckpoint(part)
    with target:
        for each in compare_specs(spec, target.spec):
            yield Loss(each.field, f"{each.source} becomes {each.target}", True)
        yield from _compare_defaults(source.generation, target.generation)
        if source.has_tokenizer and target.has_tokenizer:
            yield from _compare_texts(source, target)


def _compare_defaults(ours: GenerationDefaults, theirs: GenerationDefaults) -> Iterator[Loss]:
    """Sampling defaults. What begins a text is seen in its tokens; how long it may get a GGUF has no word for."""
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty"):
        before, after = getattr(ours, name), getattr(theirs, name)
        if not is_close(before, after):
            yield Loss(name, f"{before} becomes {after}", True)


def _compare_texts(source: Checkpoint, target: Checkpoint) -> Iterator[Loss]:
    ours, theirs = open_tokenizer(source), open_tokenizer(target)
    ends = [
        set(list_ends(checkpoint.generation, tokenizer)) for checkpoint, tokenizer in ((source, ours), (target, theirs))
    ]
    if ends[0] != ends[1]:
        yield Loss("eos_token_id", f"{sorted(ends[0])} becomes {sorted(ends[1])}", True)
    assert ours is not None, "the source has a tokenizer"
    assert theirs is not None, "the target has a tokenizer"
    unequal = [text for text in list_samples() if ours.encode(text) != theirs.encode(text)]
    if unequal:
        yield Loss("tokenizer", f"{len(unequal)} texts have other ids, the first is {unequal[0][:60]!r}", True)
    templates = [
        (checkpoint.tokenizer_source.chat_template, dict(checkpoint.tokenizer_source.chat_templates))
        for checkpoint in (source, target)
    ]
    if templates[0] != templates[1]:
        yield Loss("chat_template", "is not the same text", True)
