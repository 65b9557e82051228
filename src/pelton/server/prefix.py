"""The routes of /v1/prefixes: a prompt's beginning is computed once, and stays in the cache under a name.

Invariant: a tenant sees and releases names of its own only, and they keep at most `named_prefix_share` of the cache.
Whatever a prefix costs is paid like a request: it is admitted, counted and bounded like one. Only whole blocks are
kept, so what is kept may be a few tokens shorter than what was given.
"""

from __future__ import annotations

import re
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pelton.api.conversation import Conversation, render_conversation
from pelton.core.outputs import PrefixInfo
from pelton.core.sampling_params import SamplingParams
from pelton.errors import RateLimited, RequestError, TooLong, UnknownPrefix
from pelton.server.admission import Held
from pelton.server.disconnect import until_disconnect
from pelton.server.error_answer import JsonResponse
from pelton.server.generation import make_ignored_headers, read_request
from pelton.server.prefix_schema import MAX_TTL_S, PREFIX, PrefixRequest
from pelton.server.request_record import current_held, current_tenant
from pelton.server.sampling_field import MAX_SALT_CHARACTERS
from pelton.server.state import ServerState, choose_request_id
from pelton.server.tally import Tally

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


async def create_prefix(request: Request) -> Response:
    """The handler of POST /v1/prefixes."""
    state: ServerState = request.app.state.pelton
    fields, ignored = await read_request(request, state, PREFIX)
    state.check_model(fields.model)
    check_fields(fields)
    request_id = choose_request_id(request.scope["pelton.request_id"])
    info = await until_disconnect(
        request.receive, make_prefix(state, fields, current_tenant(), request_id, current_held())
    )
    return JsonResponse(describe_prefix(state, info), headers=make_ignored_headers(ignored))


async def list_prefixes(request: Request) -> Response:
    """The handler of GET /v1/prefixes."""
    state: ServerState = request.app.state.pelton
    infos = await state.engine.parts.client.list_prefixes(current_tenant())
    return JsonResponse({"object": "list", "data": [describe_prefix(state, info) for info in infos]})


async def show_prefix(request: Request) -> Response:
    """The handler of GET /v1/prefixes/{name}."""
    state: ServerState = request.app.state.pelton
    info = await find_prefix(state, request.path_params["name"], current_tenant())
    return JsonResponse(describe_prefix(state, info))


async def delete_prefix(request: Request) -> Response:
    """The handler of DELETE /v1/prefixes/{name}."""
    state: ServerState = request.app.state.pelton
    name = request.path_params["name"]
    if not await state.engine.parts.client.release_prefix(name, current_tenant()):
        raise make_unknown(name)
    return JsonResponse({"object": "prefix", "name": name, "deleted": True})


def check_fields(fields: PrefixRequest) -> None:
    """Raise RequestError unless the fields have values that can be used and do not contradict each other."""
    if not _NAME.fullmatch(fields.name or ""):
        raise RequestError(
            f"name: {(fields.name or '')[:64]!r}, expected 1 to 64 letters, digits, '.', '_' and '-'.", param="name"
        )
    if (fields.prompt is None) == (fields.messages is None):
        raise RequestError("prompt: give either prompt or messages.", param="prompt")
    if fields.ttl is not None and not 0 < fields.ttl <= MAX_TTL_S:
        raise RequestError(f"ttl: {fields.ttl}, expected more than 0 and at most {MAX_TTL_S} seconds.", param="ttl")
    if len(fields.cache_salt or "") > MAX_SALT_CHARACTERS:
        raise RequestError(f"cache_salt: expected at most {MAX_SALT_CHARACTERS} characters.", param="cache_salt")
    for name in ("tools", "chat_template_kwargs"):
        if fields.messages is None and getattr(fields, name):
            raise RequestError(f"{name}: only together with messages.", param=name)


async def make_prefix(
    state: ServerState, fields: PrefixRequest, tenant: str, request_id: str, held: Held
) -> PrefixInfo:
    """Give the prefix its name and compute it. The name holds even if the client leaves while it is computed."""
    name = fields.name or ""
    with Tally(state.metrics, 1, tenant=tenant) as tally:
        tally.stage = "prepare"
        token_ids = await compute_token_ids(state, fields)
        held.settle(len(token_ids) + 1)
        tally.begin([len(token_ids)], n=1, max_tokens=1)
        state.engine.check(token_ids, SamplingParams(max_tokens=1, temperature=0.0))
        client, salt = state.engine.parts.client, fields.cache_salt or ""
        async with state.pin_lock:
            check_share(state, name, len(token_ids), await client.list_prefixes(tenant))
            await client.pin_prefix(name, tenant, salt, token_ids, fields.ttl)
        return await state.engine.keep_prefix(  # names it again, which changes nothing, and computes it
            name,
            token_ids,
            request_id=state.make_engine_request_id(f"prefix-{request_id}"),
            tenant=tenant,
            cache_salt=salt,
            ttl_s=fields.ttl,
            on_delta=tally.add,
        )


async def compute_token_ids(state: ServerState, fields: PrefixRequest) -> tuple[int, ...]:
    """The tokens that prompts will begin with."""
    if isinstance(fields.prompt, str):
        return await state.engine.tokenize(fields.prompt, add_special_tokens=fields.add_special_tokens is not False)
    if fields.prompt is not None:
        return tuple(fields.prompt)
    conversation = Conversation.parse(
        fields.messages or (),
        tools=fields.tools,
        add_generation_prompt=False,
        variables=fields.chat_template_kwargs,
    )
    return tuple((await render_conversation(state.engine, conversation)).token_ids)


def check_share(state: ServerState, name: str, num_tokens: int, kept: list[PrefixInfo]) -> None:
    """Raise RateLimited if a prefix of `num_tokens` is too much for a tenant that keeps `kept`, TooLong if for any."""
    facts, share = state.engine.parts.facts, state.config.cache.named_prefix_share
    most = int(facts.num_blocks * share) * facts.block_size
    num_others = sum(info.num_tokens for info in kept if info.name != name)
    num_kept = num_tokens // facts.block_size * facts.block_size
    if num_kept > most:
        raise TooLong(
            f"prompt: {num_kept} tokens, expected at most the {most} that you may keep (--named-prefix-share).",
            param="prompt",
        )
    if num_others + num_kept > most:
        raise RateLimited(
            f"prefix {name!r}: {num_kept} tokens beside {num_others} that are kept for you already, expected at most "
            f"{most} in all (--named-prefix-share). Release another, or make this one shorter.",
            retry_after_s=60.0,
        )


async def find_prefix(state: ServerState, name: str, tenant: str) -> PrefixInfo:
    """A tenant's prefix. Raises UnknownPrefix."""
    for info in await state.engine.parts.client.list_prefixes(tenant):
        if info.name == name:
            return info
    raise make_unknown(name)


def make_unknown(name: str) -> UnknownPrefix:
    """What a client hears of a name that it has not."""
    return UnknownPrefix(f"name: there is no prefix {name[:64]!r}. GET /v1/prefixes lists yours.", param="name")


def describe_prefix(state: ServerState, info: PrefixInfo) -> dict[str, Any]:
    """A prefix as clients see it."""
    facts, memory_bytes = state.engine.parts.facts, state.config.cache.kv_cache_memory_bytes
    num_blocks = info.num_tokens // facts.block_size
    left_s = info.ttl_left_s
    return {
        "object": "prefix",
        "name": info.name,
        "tokens": info.num_tokens,
        "cached_tokens": info.num_cached_tokens,
        "bytes": num_blocks * (memory_bytes // facts.num_blocks),
        "expires_at": None if left_s is None else int(time.time() + left_s),
    }
