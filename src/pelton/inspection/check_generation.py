"""Generation defaults: which apply here, which do not, and which of them change what the likeliest token is."""

from __future__ import annotations

from typing import Any

from pelton.checkpoint.contract import GenerationDefaults
from pelton.inspection.finding import Finding
from pelton.inspection.scan import listed
from pelton.inspection.subject import Subject

# Fields that the reader consumes, and others whose neutral values need no following.
APPLIED = {
    *("eos_token_id", "bos_token_id", "do_sample", "temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
    "max_new_tokens",
}
INERT = {
    *("pad_token_id", "transformers_version", "_from_model_config", "use_cache", "return_dict_in_generate"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "cache_implementation"),
    *("disable_compile", "decoder_start_token_id", "trust_remote_code", "chat_format", "max_window_size"),
}
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "num_return_sequences": (1,),
    "num_beam_groups": (1,),
    "length_penalty": (1.0,),
    "diversity_penalty": (0.0,),
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "penalty_alpha": (0.0,),
    "min_length": (0,),
    "early_stopping": (False,),
    "remove_invalid_values": (False,),
    "renormalize_logits": (False,),
    "max_length": (20,),  # transformers' own default, which says nothing
    "presence_penalty": (0.0,),
    "frequency_penalty": (0.0,),
}


def find_unapplied(document: dict[str, Any]) -> dict[str, Any]:
    """Fields of generation_config.json that ask for something and are not followed."""
    return {
        name: value
        for name, value in document.items()
        if value not in (None, [], {}) and name not in APPLIED | INERT and value not in NEUTRAL.get(name, ())
    }


def check_generation(subject: Subject, defaults: GenerationDefaults | None) -> list[Finding]:
    """What a user of the defaults should know."""
    findings = []
    penalty = defaults.repetition_penalty if defaults is not None else None
    if penalty not in (None, 1.0):
        findings.append(Finding("generation.argmax", f"repetition_penalty is {penalty:g}."))
    unapplied = find_unapplied(subject.documents.get("generation_config.json", {}))
    if unapplied:
        shown = [f"{name} ({str(value)[:40]})" for name, value in unapplied.items()]
        findings.append(Finding("generation.not-applied", f"generation_config.json: {listed(shown, 6)}."))
    return findings


def describe_defaults(defaults: GenerationDefaults) -> str:
    """The sampling defaults that the checkpoint gives.

    >>> describe_defaults(GenerationDefaults(temperature=0.7, top_k=20))
    'temperature 0.7, top_k 20'
    """
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens")
    given = [f"{name} {getattr(defaults, name):g}" for name in names if getattr(defaults, name) is not None]
    return ", ".join(given) or "none given"
