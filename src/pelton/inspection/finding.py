"""What an inspection may find suspicious: one table of stable ids, each with what to do about it.

An id is `area.what`; programs and documents may rely on it. A finding says in one sentence what was seen; the advice
belongs to its kind and is the same wherever it is found. "error": the model gives wrong answers or none. "warning":
somebody should look. "note": nothing is wrong here, but other programs may read it differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Kind:
    """Everything that findings of one id share."""

    severity: Severity
    title: str  # what is found, without the particulars
    advice: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen."""

    id: str
    sentence: str

    def __post_init__(self) -> None:
        assert self.id in KINDS, f"{self.id} is not in the table of findings"

    @property
    def kind(self) -> Kind:
        return KINDS[self.id]


KINDS: Final[dict[str, Kind]] = {
    # files
    "files.stale-weights": Kind(
        "warning",
        "weight files that the index does not name",
        "Remove them, or the index if it is out of date: other programs load every file they see.",
    ),
    "files.other-format": Kind(
        "note", "weights of another format beside the model", "They are not read. Remove them if they are out of date."
    ),
    "files.adapter": Kind(
        "warning", "an adapter beside the model", "It is not applied. Merge it into the weights if it is meant."
    ),
    "files.code": Kind(
        "note", "program code", "It is never run. Read it if the model is new to you: its mathematics may be in there."
    ),
    "files.pickle": Kind(
        "note", "pickled objects that hold no weights", "They are never opened. Nobody needs them to use the model."
    ),
    "files.total-size": Kind(
        "note",
        "an index whose total_size is not that of the tensors",
        "Every tensor was found and fits its file, so it is only the number that is wrong.",
    ),
    "files.zero-tail": Kind(
        "error",
        "a weight file that ends in zeros",
        "An interrupted download leaves such a file. Compare its SHA-256 (--hash) with the publisher's, or fetch it "
        "again.",
    ),
    "files.holes": Kind(
        "error",
        "a weight file with holes",
        "Its space was reserved and never written, so it reads as zeros. Fetch it again.",
    ),
    "files.lfs-pointer": Kind(
        "error", "a pointer of Git LFS in the place of a file", "Run 'git lfs pull' where the model was cloned."
    ),
    "files.partial": Kind("warning", "traces of an unfinished download", "Run the download again; it goes on."),
    # configuration
    "config.code": Kind(
        "warning",
        "fields that ask other programs to run code or to fetch it",
        "They are inert here. Do not open the model with a program that trusts remote code.",
    ),
    "config.model-type": Kind(
        "warning",
        "a model_type that is not that of the architecture",
        "The architecture decides here; programs that go by model_type build another model, with other defaults.",
    ),
    "config.rope-twice": Kind(
        "error",
        "rotary fields that disagree",
        "Programs differ in which one they read. Keep the one that the model was trained with.",
    ),
    "config.rope-original": Kind(
        "warning",
        "a rotary scaling that contradicts max_position_embeddings",
        "Compare with the configuration of the original model: the scaling may never apply, or at the wrong length.",
    ),
    "config.rope-missing": Kind(
        "warning",
        "a context that is longer than the rotary embedding accounts for",
        "If the model was trained with scaled positions, its configuration has lost that. Compare with the original.",
    ),
    "config.rope-base": Kind(
        "warning",
        "a rotary base that the file does not give",
        "The default of the architecture is used. Compare with the original model's rope_theta.",
    ),
    "config.tied-head": Kind(
        "error",
        "a head that is stored and differs from the embedding, in a model that ties them",
        "It is refused. Set tie_word_embeddings to false if the stored head is meant, or remove it.",
    ),
    "config.tied-large": Kind(
        "warning",
        "a tied head in a model of a size that has one of its own",
        "A conversion may have lost it. Compare with the original model's tie_word_embeddings.",
    ),
    "config.tie-twice": Kind(
        "note",
        "a head that is stored although it is tied",
        "It equals the embedding where it was compared, and is not read.",
    ),
    "config.dtype": Kind(
        "note",
        "weights of another dtype than the configuration says",
        "The dtype of the weights is used. Programs that cast to the configuration's may overflow or round.",
    ),
    "config.float16": Kind(
        "warning",
        "float16 weights of a family that overflows in it",
        "Nothing is computed in float16 here; numbers that were lost when the file was made stay lost. Look with "
        "--tensors.",
    ),
    # quantization
    "quantization.scales": Kind(
        "error",
        "quantized weights without their scales",
        "They cannot be decoded. The conversion lost the scales; fetch the model again.",
    ),
    "quantization.some-scales": Kind(
        "warning",
        "NVFP4 weights of which some have a scale of their own and some none",
        "One of the others may have been lost. Compare with the model that this one was made from.",
    ),
    "quantization.ignore": Kind(
        "warning",
        "exceptions of the quantization that match no tensor",
        "Names may have changed since. Check that what is quantized is what should be.",
    ),
    "quantization.cache-scales": Kind(
        "note", "scales for a quantized KV cache", "They are not used: the cache keeps its own precision."
    ),
    "quantization.low-head": Kind(
        "note",
        "an embedding or head of very few bits",
        "Rare tokens suffer first. Prefer a file that keeps them at 6 bits or more.",
    ),
    # tokenizer
    "tokenizer.rows": Kind(
        "error",
        "more tokens than the model has rows for",
        "The tokenizer belongs to another model, or the embedding was cut.",
    ),
    "tokenizer.special": Kind(
        "error",
        "special tokens that are not one id inside a text",
        "The control tokens of a conversation would reach the model as plain text. Use the original tokenizer.",
    ),
    "tokenizer.added": Kind(
        "warning",
        "added tokens that differ between the tokenizer's files",
        "Programs differ in which file they read; tokenizer.json is read here. Save the tokenizer again.",
    ),
    "tokenizer.vocabulary": Kind(
        "warning",
        "a vocabulary beside tokenizer.json that differs from it",
        "tokenizer.json is read here; programs that read the other file get other ids. Remove the one that is wrong.",
    ),
    "tokenizer.order": Kind(
        "warning",
        "tokens whose ids are out of the order of their merges",
        "Two entries of the vocabulary may have been exchanged, which changes what is read and written. Compare the "
        "SHA-256 (--hash) with the publisher's.",
    ),
    "tokenizer.pattern": Kind(
        "note",
        "words that are cut by a pattern of no known model",
        "It is used as it is written. Other programs go by the family's pattern, and get other ids.",
    ),
    "tokenizer.no-bos": Kind(
        "warning",
        "a family that needs BOS, and a tokenizer that adds none",
        "Plain texts go to the model without it. Compare add_bos_token with the original model's.",
    ),
    "tokenizer.plain-end": Kind(
        "warning",
        "an end id that is an ordinary token",
        "A text that contains it ends there. Compare eos_token_id with the original model's.",
    ),
    "tokenizer.regex": Kind(
        "warning",
        "a pre-tokenizer known to be wrong for this family",
        "It is used as it is written. Fetch the tokenizer again from the original model.",
    ),
    "tokenizer.ends": Kind(
        "note",
        "sources that name different end tokens",
        "A text ends at any of them here. Other programs may go by one source alone.",
    ),
    # template
    "template.differ": Kind(
        "warning",
        "chat templates that differ from place to place",
        "Programs differ in which one they read. Keep one, or make them equal.",
    ),
    "template.missing": Kind(
        "note",
        "no chat template",
        "Give one with --chat-template if the model was trained on conversations.",
    ),
    "template.fails": Kind(
        "error", "a chat template that fails on a plain conversation", "Give another one with --chat-template."
    ),
    "template.two-bos": Kind(
        "error",
        "a conversation that begins with BOS twice",
        "Remove one: models are not trained on it. Here the tokenizer adds none to what a template writes.",
    ),
    "template.bos-and-flag": Kind(
        "note",
        "a template that writes BOS and a tokenizer that adds it",
        "Here the tokenizer adds none to a rendered conversation. Programs that do begin with BOS twice.",
    ),
    "template.no-bos": Kind(
        "warning",
        "a template without BOS for a tokenizer that adds it",
        "A rendered conversation begins without it here. Compare with the original template.",
    ),
    "template.no-stop": Kind(
        "error",
        "a turn that ends in no stop id",
        "The model may go on with the other side of the conversation. Add the token that ends a turn to eos_token_id.",
    ),
    "template.escape": Kind(
        "error",
        "a template that reaches for the program that renders it",
        "It is an attack: the sandbox here refuses it, other programs may run it. Do not use this file anywhere.",
    ),
    "template.trigger": Kind(
        "warning",
        "a template that acts on words of the conversation",
        "What is sent to the model may change on a word that a user writes. Compare with the publisher's template.",
    ),
    "template.own-text": Kind(
        "note",
        "a template that writes sentences of its own",
        "They are part of every prompt. Compare with the publisher's template if the model is a copy.",
    ),
    "template.clock": Kind(
        "note", "a template that asks for the date", "The prompt changes from day to day; so may the answers."
    ),
    # generation
    "generation.argmax": Kind(
        "warning",
        "defaults that change which token is likeliest",
        "Greedy answers and log probabilities differ from the bare model's. Pass neutral values to compare models.",
    ),
    "generation.not-applied": Kind(
        "warning",
        "generation fields that are not followed",
        "They have no effect here. Ask for them in each request, where the API has them.",
    ),
    # weights
    "weights.norm-doubled": Kind(
        "error",
        "norm weights that look as if one had been added twice",
        "A conversion of this family adds one to each norm. Convert again from the original.",
    ),
    "weights.norm-undone": Kind(
        "error",
        "norm weights that look as if one had not been added",
        "A conversion of this family adds one to each norm. Convert again from the original.",
    ),
    "weights.layers": Kind(
        "error", "layers that are not those of the configuration", "The conversion stopped early, or files are missing."
    ),
    "weights.unlearnt": Kind(
        "warning",
        "tokens of the conversation that the model never learnt",
        "It does not write them, so answers may not end. Use the model that was trained with them, or other stop ids.",
    ),
    "weights.copies": Kind(
        "warning",
        "matrices that are copies of one another",
        "A conversion that loses count writes one layer or expert many times. Models that are grown by repeating "
        "layers have them, too.",
    ),
    "weights.not-finite": Kind(
        "error", "tensors with numbers that are not finite", "The file is damaged, or its conversion overflowed."
    ),
    "weights.all-zero": Kind(
        "error",
        "matrices or norms of zeros alone",
        "A part of the model has no effect. The conversion did not fill it, or the file is damaged.",
    ),
}
