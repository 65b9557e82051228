"""The tokenizer and the chat template: what they are, and whether they and the stop ids fit together.

The tokenizer is built and a plain conversation is rendered, in the process that renders all templates; nothing else of
a model's is run. Costs what starting to serve costs: up to two seconds for a large vocabulary.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pelton.errors import EngineError
from pelton.inspection.check_order import check_order
from pelton.inspection.check_vocabulary import check_plain_ends, check_vocabulary, load_if_there
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed
from pelton.inspection.subject import Subject
from pelton.inspection.template_names import SUPPLIED, read_template
from pelton.tokenization.chat import Chat
from pelton.tokenization.chat_template import TemplateWorker
from pelton.tokenization.make import make_tokenizer
from pelton.tokenization.pre_tokenizer import PRE_TOKENIZERS
from pelton.tokenization.source import HfTokenizerSource, TokenizerSource
from pelton.tokenization.tokenizer import Tokenizer

_CONVERSATION = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
    {"role": "assistant", "content": "four"},
]
_MAX_CHECKED_SPECIALS = 2000
_MARKER = re.compile(r"<\|?[A-Za-z_][A-Za-z0-9_]{0,40}\|?>|\[/?[A-Z_]{3,20}\]")
_SENTENCE = re.compile(r"(?:[A-Za-z][A-Za-z,.;:'-]*[ ]){4,}[A-Za-z][A-Za-z,.;:'-]*")


@dataclass(slots=True, kw_only=True)
class TextFacts:
    """Words for the screen. `end_ids` are all ids at which a text ends here, with their spelling."""

    tokenizer: dict[str, str] = field(default_factory=dict)
    templates: dict[str, str] = field(default_factory=dict)  # by place
    variables: list[str] = field(default_factory=list)
    unknown_variables: list[str] = field(default_factory=list)
    end_ids: dict[int, str] = field(default_factory=dict)
    special_ids: list[int] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def read_text_facts(subject: Subject, worker: TemplateWorker) -> TextFacts:
    """Everything that a subject's tokenizer and templates tell. Refusals are kept in the subject."""
    facts = TextFacts()
    checkpoint = subject.checkpoint
    facts.templates = {place: _describe(text) for place, text in find_templates(subject).items()}
    facts.findings += _check_places(find_templates(subject))
    source = _find_source(subject)
    tokenizer = None if source is None else subject.attempt(lambda: make_tokenizer(source))
    if source is None or tokenizer is None:
        return facts
    facts.tokenizer = describe_tokenizer(subject, tokenizer)
    facts.special_ids = sorted(tokenizer.special_ids)
    facts.findings += check_vocabulary(subject, tokenizer)
    if checkpoint is None:
        return facts
    generation = subject.attempt(lambda: checkpoint.generation)
    ends = [*(generation.eos_token_ids if generation is not None else ()), *sorted(tokenizer.end_token_ids)]
    facts.end_ids = {end: tokenizer.id_to_token(end) for end in ends if end < tokenizer.vocab_size}
    markers = _MARKER.findall(source.chat_template or "")[:200]
    facts.findings += _check_tokenizer(subject, tokenizer, checkpoint.spec.vocab_size, set(markers))
    facts.findings += _check_ends(subject, tokenizer)
    facts.findings += check_plain_ends(tokenizer, facts.end_ids)
    if source.chat_template is None and not source.chat_templates:
        facts.findings.append(Finding("template.missing", "There is none in any of the places it may be."))
        return facts
    if source.chat_template is not None:
        _judge(facts, source.chat_template, Chat(tokenizer, worker, source.chat_template), tokenizer)
    return facts


def _find_source(subject: Subject) -> TokenizerSource | None:
    """The checkpoint's; of a directory that is refused, what its files say."""
    checkpoint, directory = subject.checkpoint, subject.directory
    if checkpoint is not None:
        return subject.attempt(lambda: checkpoint.tokenizer_source)
    if directory is None or not (directory / "tokenizer.json").is_file():
        return None
    return HfTokenizerSource(
        tokenizer_json=directory / "tokenizer.json",
        tokenizer_config=subject.documents.get("tokenizer_config.json", {}),
        special_tokens=subject.documents.get("special_tokens_map.json", {}),
        chat_template=None,
        chat_templates={},
    )


def _judge(facts: TextFacts, template: str, chat: Chat, tokenizer: Tokenizer) -> None:
    """What is to be said of the template that is used: first of its text, then of what it renders."""
    read = read_template(template)
    facts.variables = read.variables
    facts.unknown_variables = [name for name in facts.variables if name not in SUPPLIED]
    if read.problem is not None:
        facts.findings.append(Finding("template.fails", f"It cannot be parsed: {read.problem}."))
        return
    if read.escapes:
        facts.findings.append(Finding("template.escape", f"It names {listed(read.escapes)}."))
    if read.triggers:
        shown = listed([repr(word) for word in read.triggers])
        facts.findings.append(Finding("template.trigger", f"It looks for {shown} in messages."))
    if "strftime_now" in facts.variables:
        facts.findings.append(Finding("template.clock", "It reads strftime_now."))
    facts.findings += _check_rendered(chat, tokenizer, set(facts.end_ids))


def find_templates(subject: Subject) -> dict[str, str]:
    """Every template that is there, by its place; the one that wins last."""
    templates: dict[str, str] = {}
    directory = subject.directory
    if directory is not None and subject.format != "gguf":
        for name in ("chat_template.json", "tokenizer_config.json"):
            document = subject.documents.get(name) or load_if_there(directory / name)
            templates |= _named(document.get("chat_template"), name)
        for path in sorted(directory.glob("additional_chat_templates/*.jinja")):
            templates[f"additional_chat_templates/{path.name}"] = _read(path)
        if (directory / "chat_template.jinja").is_file():
            templates["chat_template.jinja"] = _read(directory / "chat_template.jinja")
    for key, value in subject.metadata.items():
        if key.startswith("tokenizer.chat_template") and isinstance(value, str):
            templates[key] = value
    return templates


def _named(value: Any, where: str) -> dict[str, str]:
    if isinstance(value, str):
        return {where: value}
    entries = value if isinstance(value, list) else []
    return {
        f"{where}: {entry['name']}": entry["template"]
        for entry in entries
        if isinstance(entry, Mapping) and isinstance(entry.get("template"), str) and isinstance(entry.get("name"), str)
    }


def _read(path: Path) -> str:
    return path.read_bytes()[: 4 << 20].decode("utf-8", "replace")


def _describe(template: str) -> str:
    digest = hashlib.sha256(template.encode("utf-8", "replace")).hexdigest()
    return f"{len(template.splitlines())} lines, SHA-256 {digest[:12]}"


def _check_places(templates: Mapping[str, str]) -> list[Finding]:
    """Whether the places of the default template agree. Named ones are meant to differ."""
    default = {place: text for place, text in templates.items() if _is_default(place)}
    if len(set(default.values())) < 2:
        return []
    places = list(default)
    return [Finding("template.differ", f"{listed(places)} differ; {places[-1]} is used.")]


def _is_default(place: str) -> bool:
    if place.startswith(("additional_chat_templates/", "tokenizer.chat_template.")):
        return False
    name = place.partition(": ")[2]
    return name in ("", "default")


def describe_tokenizer(subject: Subject, tokenizer: Tokenizer) -> dict[str, str]:
    """Kind, size, pre-tokenizer and special tokens, in words."""
    kind, pre = _describe_kind(subject)
    num_rows = subject.checkpoint.spec.vocab_size if subject.checkpoint is not None else 0
    spare = num_rows - tokenizer.vocab_size
    size = f"{tokenizer.vocab_size:,} tokens" + (f", {spare:,} rows without one" if spare > 0 else "")
    named = {name.removesuffix("_token").upper(): text for name, text in tokenizer.special_texts.items()}
    special = [f"{name} {text!r} ({tokenizer.token_to_id(text)})" for name, text in named.items()]
    ids, plain = tokenizer.encode("x"), tokenizer.encode("x", add_special_tokens=False)
    before = next((n for n in range(len(ids)) if ids[n : n + len(plain)] == plain), len(ids))
    borders = (("before", ids[:before]), ("after", ids[before + len(plain) :]))
    adds = [f"{' '.join(map(tokenizer.id_to_token, tokens))} {where}" for where, tokens in borders if tokens]
    return {
        "kind": kind,
        "size": size,
        "pre-tokenizer": pre,
        "special tokens": f"{len(tokenizer.special_ids):,}: {', '.join(special) or 'none has a name'}",
        "adds": f"{' and '.join(adds)} a text" if adds else "nothing to a text",
    }


def _describe_kind(subject: Subject) -> tuple[str, str]:
    """(kind, pre-tokenizer) as the sources name them."""
    kinds = {"gpt2": "byte-level BPE", "llama": "SentencePiece BPE", "t5": "SentencePiece unigram"}
    model = subject.metadata.get("tokenizer.ggml.model")
    if isinstance(model, str):
        pre = subject.metadata.get("tokenizer.ggml.pre")
        return kinds.get(model, model), str(pre) if pre and model == "gpt2" else "none"
    document = subject.pipeline
    decoder = str(document.get("decoder"))
    model_type = document.get("model", {}).get("type") if isinstance(document.get("model"), Mapping) else None
    family = "byte-level " if "ByteLevel" in decoder else "SentencePiece " if "ByteFallback" in decoder else ""
    return f"{family}{model_type or 'BPE'}", _describe_pre(document.get("pre_tokenizer"))


def _describe_pre(value: Any) -> str:
    """The steps of a pre-tokenizer; a known pattern by the name that GGUF has for it."""
    if not isinstance(value, Mapping):
        return "none"
    inner = value.get("pretokenizers")
    steps = inner if isinstance(inner, list) else [value]
    patterns = tuple(found for step in steps if (found := find_pattern(step)) is not None)
    known = [name for name, rule in PRE_TOKENIZERS.items() if rule.patterns == patterns]
    names = [str(step.get("type")) for step in steps if isinstance(step, Mapping)]
    rest = f" (the words of {known[0]})" if known else f" ({len(patterns)} patterns of its own)" if patterns else ""
    return " then ".join(names) + rest


def find_pattern(step: Any) -> str | None:
    """The regular expression of a Split step of tokenizer.json."""
    pattern = step.get("pattern") if isinstance(step, Mapping) else None
    found = pattern.get("Regex") if isinstance(pattern, Mapping) else None
    return found if isinstance(found, str) else None


def _check_tokenizer(subject: Subject, tokenizer: Tokenizer, num_rows: int, markers: set[str]) -> list[Finding]:
    """`markers` are texts of the template that look like special tokens, which the vocabulary may not mark as such."""
    findings = []
    if tokenizer.vocab_size > num_rows:
        findings.append(
            Finding(
                "tokenizer.rows", f"The tokenizer has {tokenizer.vocab_size:,} tokens, the model {num_rows:,} rows."
            )
        )
    marked = {token_id for text in markers if (token_id := tokenizer.token_to_id(text)) is not None}
    split = [
        text
        for id_ in sorted({*sorted(tokenizer.special_ids)[:_MAX_CHECKED_SPECIALS], *marked})
        if (text := tokenizer.id_to_token(id_)) and id_ not in tokenizer.encode(f"a{text}b", add_special_tokens=False)
    ]
    if split:
        findings.append(
            Finding("tokenizer.special", f"{listed([repr(text) for text in split])}: not one id between letters.")
        )
    pre = _describe_kind(subject)[1]
    if subject.config.get("model_type") in ("mistral", "mixtral", "ministral") and "(the words of llama-bpe)" in pre:
        findings.append(Finding("tokenizer.regex", "A Mistral tokenizer cuts words with the pattern of Llama 3."))
    if pre.endswith("of its own)"):
        findings.append(Finding("tokenizer.pattern", f"{pre}."))
    is_gemma = subject.checkpoint is not None and subject.checkpoint.spec.architecture.startswith("gemma")
    if is_gemma and tokenizer.encode("x")[:1] != [tokenizer.bos_token_id]:
        findings.append(Finding("tokenizer.no-bos", "Gemma's texts begin with it."))
    return findings + check_order(subject)


def _check_ends(subject: Subject, tokenizer: Tokenizer) -> list[Finding]:
    """Whether generation_config.json, config.json and the tokenizer name the same end."""
    named: dict[str, set[int]] = {}
    for name in ("generation_config.json", "config.json"):
        value = subject.documents.get(name, {}).get("eos_token_id")
        if value is not None:
            named[name] = {end for end in (value if isinstance(value, list) else [value]) if isinstance(end, int)}
    if tokenizer.eos_token_id is not None and named:
        named["the tokenizer"] = {tokenizer.eos_token_id}
    first = next(iter(named.values()), set())
    if all(ends <= first for ends in named.values()):
        return []
    says = "; ".join(f"{where} {', '.join(map(str, sorted(ends)))}" for where, ends in named.items())
    return [Finding("tokenizer.ends", f"{says}.")]


def _check_rendered(chat: Chat, tokenizer: Tokenizer, end_ids: set[int]) -> list[Finding]:
    """A plain conversation: one BOS, and after each answer a token that ends it."""
    try:
        prompt = chat.make_prompt(_CONVERSATION, add_generation_prompt=False)
    except EngineError as error:
        return [Finding("template.fails", f"{error}")]
    findings = []
    bos = tokenizer.bos_token_id
    adds_bos = bos is not None and tokenizer.encode("x")[:1] == [bos]
    begins = prompt.token_ids[:1] == [bos] and bos is not None
    if bos is not None and prompt.token_ids[:2] == [bos, bos]:
        findings.append(Finding("template.two-bos", "The template writes BOS twice."))
    elif begins and adds_bos:
        findings.append(Finding("template.bos-and-flag", "Both do."))
    elif adds_bos and not begins:
        findings.append(Finding("template.no-bos", f"A conversation begins with {_shown(prompt.text[:20])}."))
    own = _SENTENCE.findall(re.sub(r"\bone\b|\btwo\b|\bthree\b|\bfour\b", "\n", prompt.text))
    if own:
        findings.append(Finding("template.own-text", f"{listed([repr(text.strip()[:80]) for text in own])}."))
    end = _find_end(prompt.token_ids, tokenizer, "two")
    if end is not None and not set(end) & end_ids:
        shown = _shown(tokenizer.decode(end, skip_special_tokens=False))
        findings.append(Finding("template.no-stop", f"After an answer it writes {shown}, which no stop id is part of."))
    return findings


def _find_end(ids: Sequence[int], tokenizer: Tokenizer, answer: str) -> list[int] | None:
    """The tokens between the first answer and the next question; None where the answer cannot be found."""
    texts = [tokenizer.token_bytes(id_) for id_ in ids]
    joined = b"".join(texts)
    begin, end = joined.find(answer.encode()), joined.find(b"three")
    if begin < 0 or end < begin:
        return None
    begin += len(answer)
    between, at = [], 0
    for id_, text in zip(ids, texts, strict=True):
        if at >= begin and at + len(text) <= end:
            between.append(id_)
        at += len(text)
    return between


def _shown(text: str) -> str:
    return repr(text)
