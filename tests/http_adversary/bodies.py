"""Bodies made from the server's own description: every field of every route with every kind of wrong value.

Values are JSON texts, not Python ones, so that what no encoder writes (1e309, half a surrogate pair, a key twice) can
be said. `single_cases` is complete; `RandomCases` goes on from there with changes drawn by a seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BASES: Mapping[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "ab", "max_tokens": 2},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2},
    "/v1/prefixes": {"name": "a", "prompt": "abcdefgh" * 8},
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [1, 2]},
}
NUMBERS = (
    "0", "-0", "-0.0", "1", "1.0", "1.5", "-1", "2", "17", "255", "5000", "2147483647", "2147483648", "-2147483649",
    "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "1" + "0" * 40, "1" + "0" * 400, "1" + "0" * 4400, "1e308",
    "1e309", "-1e309", "1e-400", "0.1e1", "5e-324", "NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "0x1",
    "1_0",
)  # fmt: skip
TEXTS = (
    '""', '" "', '"1"', '"a"', '"true"', '"null"', '"\\u0000"', '"a\\u0000b"', '"\\ud83d"', '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"', '"\\u202e"', '"\\u001b[31m"', '"\\r\\nset-cookie: a"', '"../../../../etc/passwd"', '"{{7*7}}"',
    '"{% for i in range(10**9) %}{% endfor %}"', '"<|im_end|>"', '"<|assistant|>"', '"%s%n"', '"\\ufeff"', '"\\ufffe"',
    '"(a+)+$"', '"(unclosed["', '"' + "a" * 300 + '"', '"' + "\u00e4" * 2000 + '"', '"\x7f"', '"\\x"', '"\\', '"a\nb"',
)  # fmt: skip
SHAPES = (
    "null", "true", "false", "[]", "{}", "[[]]", "[null]", "[{}]", "[[[]]]", '[""]', '["a"]', '["a", 1]', "[1, 2]",
    "[1, true]", "[1.0]", "[1.5]", "[-1]", "[255]", "[100000]", "[9223372036854775808]", "[1e309]", '{"": 0}',
    '{"a": 1}', '{"5": 1}', '{"5": 1e309}', '{"-1": 5}', '{"5": null}', '{"191222999": -100}', '{"\\u0000": {}}',
    '{"__class__": {"__init__": {"__globals__": 1}}}', '{"type": "json_schema", "json_schema": {"schema": {}}}',
    "[" * 40 + "]" * 40, "[" * 80 + "]" * 80, "[" * 5000, '{"a":' * 40 + "1" + "}" * 40, "[" + "0," * 3000 + "0]",
    "[" + '"a",' * 3000 + '"a"]', "{" + ",".join(f'"{i}": 1' for i in range(2000)) + "}", '{"a": 1, "a": 2}', "[1,]",
    "undefined", "'a'", "/**/1", "",
)  # fmt: skip
HOSTILE = (*NUMBERS, *TEXTS, *SHAPES)
# Where a value may stand inside of a field, with a hole for it.
INNER: Mapping[str, tuple[str, ...]] = {
    "messages": (
        "[%s]",
        '[{"role": %s, "content": "a"}]',
        '[{"role": "user", "content": %s}]',
        '[{"role": "user", "content": [%s]}]',
        '[{"role": "user", "content": [{"type": %s, "text": "a"}]}]',
        '[{"role": "user", "content": [{"type": "text", "text": %s}]}]',
        '[{"role": "user", "content": [{"type": "image_url", "image_url": %s}]}]',
        '[{"role": "user", "content": "a", "name": %s}]',
        '[{"role": "user", "content": "a", "unknown": %s}]',
        '[{"role": "assistant", "content": null, "tool_calls": %s}, {"role": "user", "content": "a"}]',
        '[{"role": "assistant", "tool_calls": [{"id": %s, "type": "function", "function": {"name": "f", "arguments": '
        '"{}"}}]}, {"role": "tool", "tool_call_id": null, "content": "a"}]',
        '[{"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '
        '%s}}]}, {"role": "tool", "tool_call_id": "a", "content": "a"}]',
        '[{"role": "tool", "tool_call_id": %s, "content": "a"}]',
    ),
    "tools": (
        "[%s]",
        '[{"type": %s, "function": {"name": "f"}}]',
        '[{"type": "function", "function": %s}]',
        '[{"type": "function", "function": {"name": %s}}]',
        '[{"type": "function", "function": {"name": "f", "parameters": %s}}]',
        '[{"type": "function", "function": {"name": "f", "description": %s}}]',
    ),
    "tool_choice": ('{"type": "function", "function": {"name": %s}}',),
    "chat_template_kwargs": ('{"a": %s}', '{"messages": %s}', '{"tokenize": %s}'),
    "stream_options": ('{"include_usage": %s}', '{"unknown": %s}'),
    "logit_bias": ('{"5": %s}', '{"5": 1, "5": %s}'),
    "stop": ("[%s]", '["a", %s]'),
    "stop_token_ids": ("[%s]", "[1, %s]"),
    "prompt": ("[%s]", "[1, %s]", '["a", %s]', "[[%s]]", "[[1], [%s]]"),
    "tokens": ("[%s]", "[1, %s]"),
}
CHAT = '[{"role": "user", "content": "abcdefghabcdefghabcdefghabcdefgh"}]'  # a block of the cache
# A value that each field takes, and what else it needs.
GOOD: Mapping[str, str] = {
    "model": '"oracle"', "max_tokens": "3", "max_completion_tokens": "2", "temperature": "0.5", "top_p": "0.5",
    "top_k": "3", "min_p": "0.1", "n": "2", "seed": "7", "stop": '["zz"]', "stop_token_ids": "[3]",
    "include_stop_str_in_output": "true", "ignore_eos": "true", "min_tokens": "1", "presence_penalty": "1",
    "frequency_penalty": "-1", "repetition_penalty": "1.1", "logit_bias": '{"5": -100}', "skip_special_tokens": "false",
    "stream": "true", "stream_options": '{"include_usage": true}', "truncate_prompt_tokens": "1",
    "add_special_tokens": "false", "return_token_ids": "true", "return_tokens_as_token_ids": "true", "priority": "1",
    "cache_salt": '"a"', "explain_cache": "true", "request_id": '"a"',
    "prompt": '"abcdefghabcdefghabcdefghabcdefgh"', "echo": "true",
    "logprobs": "1", "best_of": "1", "messages": CHAT, "top_logprobs": "2",
    "tools": '[{"type": "function", "function": {"name": "f", "parameters": {}}}]', "tool_choice": '"auto"',
    "add_generation_prompt": "false", "continue_final_message": "true", "chat_template_kwargs": '{"a": 1}',
    "reasoning_effort": '"low"',
    "name": '"b"', "ttl": "5.5", "timeout": "30", "return_token_strs": "true", "tokens": "[1]",
}  # fmt: skip
NEEDS: Mapping[str, dict[str, str]] = {
    "stream_options": {"stream": "true"},
    "top_logprobs": {"logprobs": "true"},
    "continue_final_message": {"add_generation_prompt": "false"},
    "max_completion_tokens": {"max_tokens": "null"},
    "messages": {"prompt": "null"},
    "tools": {"prompt": "null", "messages": CHAT},
    "chat_template_kwargs": {"prompt": "null", "messages": CHAT},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile request; `fields` are those whose names an error may give, empty where any may be meant."""

    path: str
    body: bytes
    fields: tuple[str, ...] = ()


def write(values: Mapping[str, str]) -> bytes:
    """An object whose values are JSON texts. Lone surrogates of the text itself stay bytes."""
    return ("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in values.items()) + "}").encode()


def base(path: str) -> dict[str, str]:
    """A good request, with its values as texts."""
    return {name: json.dumps(value) for name, value in BASES[path].items()}


def find_fields(openapi: Mapping[str, Any]) -> dict[str, list[str]]:
    """The fields of every route that takes a body."""
    fields = {}
    for path, operations in openapi["paths"].items():
        for operation in operations.values():
            if "requestBody" in operation:
                reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                schema = openapi["components"]["schemas"][reference.rpartition("/")[2]]
                fields[path] = list(schema["properties"])
    return fields


def good_case(path: str, field: str) -> Case:
    """A request in which `field` has a value that it takes."""
    known = {name: text for name, text in NEEDS.get(field, {}).items() if name in BASES[path] or text != "null"}
    value = "true" if (path, field) == ("/v1/chat/completions", "logprobs") else GOOD[field]
    return Case(path, write(base(path) | known | {field: value}))


def single_cases(fields: Mapping[str, list[str]]) -> Iterator[Case]:
    """Every field of every route with every hostile value, and with each at each place inside."""
    for path, names in fields.items():
        for name in [*names, "unknown", "response_format", "guided_regex", "kv_transfer_params"]:
            for value in HOSTILE:
                yield Case(path, write(base(path) | {name: value}), (name,))
        for name in set(names) & set(INNER):
            more = {k: v for k, v in NEEDS.get(name, {}).items() if k in BASES[path] or v != "null"}
            for place in INNER[name]:
                for value in HOSTILE:
                    yield Case(path, write(base(path) | more | {name: place.replace("%s", value)}), (name,))


class RandomCases:
    """Requests with several odd values, and with bytes changed; the same seed gives the same ones."""

    def __init__(self, fields: Mapping[str, list[str]], seed: int) -> None:
        self._fields = fields
        self._random = random.Random(seed)

    def make(self) -> Case:
        """The next one."""
        draw = self._random
        path = draw.choice(list(self._fields))
        values = base(path)
        for _ in range(draw.choice([1, 1, 2, 3, 6])):
            values[self._name(path)] = self._value()
        body = write(values)
        for _ in range(draw.choice([0, 0, 0, 0, 1, 1, 2, 8])):
            body = self._change(body)
        return Case(path, body)

    def _name(self, path: str) -> str:
        if self._random.random() < 0.05:
            return self._random.choice(["unknown", "\x00", "", "a" * 500, "__class__", "response_format"])
        return self._random.choice(self._fields[path])

    def _value(self) -> str:
        draw = self._random.random()
        if draw < 0.4:
            return self._random.choice(list(GOOD.values()))
        value = self._random.choice(HOSTILE)
        if draw < 0.6:
            return self._random.choice(self._random.choice(list(INNER.values()))).replace("%s", value)
        return value

    def _change(self, body: bytes) -> bytes:
        draw = self._random
        at = draw.randrange(len(body) + 1)
        end = min(len(body), at + draw.choice([1, 1, 2, 8, 100]))
        match draw.randrange(7):
            case 0:
                return body[:at]
            case 1:
                return body[:at] + body[end:]
            case 2:
                return body[:at] + bytes(draw.randrange(256) for _ in range(end - at)) + body[end:]
            case 3:
                return body[:at] + body[at:end] * draw.choice([2, 50]) + body[end:]
            case 4:
                return b"\xef\xbb\xbf" + body
            case 5:
                return body[:at] + draw.choice([b"\0", b"[", b"{", b'"', b"\\u", b"\xff", b",", b"1e999"]) + body[at:]
            case _:
                return body + draw.choice([b"{}", b"\0", b" " * 1000, b"]", body])
