"""POST /tokenize and /detokenize: text to token ids and back, in vLLM's shapes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pelton.api.conversation import Conversation, render_conversation
from pelton.engine.limits import check_token_ids
from pelton.errors import RequestError
from pelton.server.disconnect import until_disconnect
from pelton.server.error_answer import JsonResponse
from pelton.server.generation import make_ignored_headers, read_request
from pelton.server.state import ServerState
from pelton.server.token_schema import DETOKENIZE, TOKENIZE, TokenizeRequest


async def tokenize(request: Request) -> Response:
    """The handler of /tokenize."""
    state: ServerState = request.app.state.pelton
    fields, ignored = await read_request(request, state, TOKENIZE)
    state.check_model(fields.model)
    if (fields.prompt is None) == (fields.messages is None):
        raise RequestError("prompt: give either prompt or messages.", param="prompt")
    token_ids = await until_disconnect(request.receive, compute_token_ids(state, fields))
    body = {
        "count": len(token_ids),
        "max_model_len": state.engine.max_model_len,
        "tokens": token_ids,
        "token_strs": None,
    }
    if fields.return_token_strs:
        spell = state.engine.parts.tokenizer.id_to_token
        body["token_strs"] = [spell(token_id) for token_id in token_ids]
    return JsonResponse(body, headers=make_ignored_headers(ignored))


async def compute_token_ids(state: ServerState, fields: TokenizeRequest) -> tuple[int, ...]:
    """The token ids of a text or a conversation."""
    if fields.prompt is not None:
        return await state.engine.tokenize(fields.prompt, add_special_tokens=fields.add_special_tokens is not False)
    conversation = Conversation.parse(
        fields.messages or (),
        tools=fields.tools,
        add_generation_prompt=fields.add_generation_prompt is not False,
        continue_final_message=bool(fields.continue_final_message),
        variables=fields.chat_template_kwargs,
    )
    return tuple((await render_conversation(state.engine, conversation)).token_ids)


async def detokenize(request: Request) -> Response:
    """The handler of /detokenize."""
    state: ServerState = request.app.state.pelton
    fields, ignored = await read_request(request, state, DETOKENIZE)
    state.check_model(fields.model)
    token_ids = tuple(fields.tokens or ())
    check_token_ids("tokens", token_ids, state.engine.parts.tokenizer.vocab_size)
    text = await until_disconnect(request.receive, state.engine.detokenize(token_ids))
    return JsonResponse({"prompt": text}, headers=make_ignored_headers(ignored))
