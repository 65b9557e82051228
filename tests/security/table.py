"""The known ways to attack servers of this kind, after the advisories of its peers, and what stands against each here.

A row has tests, named as pytest names them (or a whole file), or a reason why there is nothing to attack. test_table
checks that the rows are complete and that every test is there.
"""

from __future__ import annotations

from dataclasses import dataclass

RAW = "tests/http_adversary/test_raw.py"
BODIES = "tests/http_adversary/test_bodies.py"
SURFACE = "tests/security/test_surface.py"
NO_GRAMMARS = "tests/security/test_surface.py::test_grammars_are_refused_before_anything_reads_them"


@dataclass(frozen=True, slots=True)
class Row:
    """One attack: what it is, and what stands against it."""

    attack: str
    tests: tuple[str, ...] = ()
    reason: str = ""  # why no test is needed, or none is possible yet


TABLE: dict[str, Row] = {
    "S-01": Row("code that runs data (pickle, eval)", (
        "tests/tools/test_house_rules.py", "tests/attacks/test_pytorch.py")),
    "S-02": Row("torn frames between the processes", (
        "tests/core/test_messages.py", "tests/engine/test_process_client.py")),
    "S-03": Row("a second open port", (f"{SURFACE}::test_one_port_is_open_and_the_engine_has_none",)),
    "S-04": Row("a peer that does not read", reason="the processes share one socketpair; a full one stops the engine"),
    "S-05": Row("serialized objects over HTTP", (f"{BODIES}::test_other_content_types_are_refused",)),
    "S-06": Row("paths in names", ("tests/security/test_hostile_model.py", "tests/attacks/test_safetensors.py")),
    "S-07": Row("keys in answers, logs, metrics", ("tests/security/test_secrets.py",)),
    "S-08": Row("an open administration", (f"{SURFACE}::test_no_route_loads_or_administers_anything",)),
    "S-09": Row("weights that are programs", (
        "tests/security/test_hostile_model.py::test_weights_that_are_programs_are_not_read",)),
    "S-10": Row("tensors in requests", reason="prompts are texts or token ids; prompt_embeds is refused by name"),
    "S-11": Row("tool calls parsed out of hostile output", reason="answers are not parsed for tool calls yet"),
    "S-12": Row("code in a model's directory", (
        "tests/security/test_hostile_model.py::test_code_of_a_model_is_never_run",)),
    "S-13": Row("checks that are asserts", ("tests/security/test_optimized.py",)),
    "S-14": Row("free-form arguments", (f"{BODIES}::test_every_field_refuses_what_is_wrong_by_its_name",
                                        f"{SURFACE}::test_templates_of_clients_are_refused")),
    "S-15": Row("files that are not those of the pinned revision", ("tests/checkpoint/hub",)),
    "S-16": Row("DNS rebinding, pages of others", ("tests/server/test_browser.py",)),
    "S-20": Row("empty prompts", ("tests/http_adversary/test_open_cases.py",)),
    "S-21": Row("n without bound", (f"{SURFACE}::test_sizes_have_bounds_and_refusals_are_quick",)),
    "S-22": Row("prompts without bound", (f"{SURFACE}::test_sizes_have_bounds_and_refusals_are_quick",)),
    "S-23": Row("NaN, infinity, wrong kinds of number", (
        f"{BODIES}::test_every_field_refuses_what_is_wrong_by_its_name", "tests/core/test_sampling_params.py")),
    "S-24": Row("grammars that do not compile", (NO_GRAMMARS,)),
    "S-25": Row("regular expressions that explode", (NO_GRAMMARS,)),
    "S-26": Row("caches without bound", ("tests/leaks/test_quiescence.py",)),
    "S-27": Row("grammars that are deep or large", (NO_GRAMMARS,)),
    "S-28": Row("template bombs", (f"{SURFACE}::test_templates_of_clients_are_refused",
                                   "tests/tokenization/test_chat_template.py")),
    "S-29": Row("giant headers, slow heads", (RAW,)),
    "S-30": Row("torn chunks, smuggling", (RAW,)),
    "S-31": Row("numbers at the edges of machine words", (
        f"{BODIES}::test_every_field_refuses_what_is_wrong_by_its_name",)),
    "S-32": Row("errors that tell of the inside", (f"{BODIES}::test_drawn_requests_are_answered_as_they_may_be",)),
    "S-33": Row("token ids that do not exist", ("tests/engine/test_limits.py", "tests/server/test_token.py")),
    "S-34": Row("text that spells special tokens", ("tests/tokenization/test_control_text.py",)),
    "S-35": Row("pairs of features", (f"{BODIES}::test_drawn_requests_are_answered_as_they_may_be",)),
    "S-36": Row("work that grows faster than its input", (
        "tests/tokenization/test_control_text.py::test_cost_grows_no_faster_than_the_text",
        f"{BODIES}::test_a_large_text_keeps_nobody_waiting")),
    "S-37": Row("refused requests that leave something", ("tests/leaks/test_quiescence.py",)),
    "S-38": Row("texts without bound", (f"{SURFACE}::test_sizes_have_bounds_and_refusals_are_quick",)),
    "S-39": Row("fetching what a text names", reason="nothing is fetched for a request; what is no text is refused"),
    "S-40": Row("fetching media from inside the network", reason="there are no media"),
    "S-41": Row("errors of libraries", (f"{BODIES}::test_drawn_requests_are_answered_as_they_may_be",)),
    "S-42": Row("media that grow when decoded", reason="there are no media"),
    "S-43": Row("prefixes with the same hash", ("tests/kvcache/test_prefix_tree.py",)),
    "S-44": Row("prefixes of other tenants", (
        "tests/kvcache/test_block_cache.py::test_tenants_and_salts_find_nothing_of_each_other",
        "tests/kvcache/test_block_cache.py::test_evictions_of_other_tenants_are_not_told")),
    "S-45": Row("indices that overflow", ("tests/backends/cpu",)),
    "S-46": Row("memory of others", ("tests/backends/cpu",)),
    "S-47": Row("state of the last user of a row", ("tests/runner/test_request_table.py",)),
    "S-48": Row("keys compared in unequal time", (
        "tests/security/test_auth_tricks.py::test_keys_are_compared_in_constant_time",)),
    "S-49": Row("paths and hosts that confuse the guard", ("tests/security/test_auth_tricks.py",)),
    "S-50": Row("hostile model files", ("tests/attacks/test_gguf.py", "tests/attacks/test_safetensors.py")),
    "S-51": Row("prompts in logs, forged lines", ("tests/security/test_secrets.py", "tests/observability/test_log.py")),
}  # fmt: skip
NUMBERS = (*range(1, 17), *range(20, 52))
