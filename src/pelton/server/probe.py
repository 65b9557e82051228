"""What operators ask: is it alive, does it take requests, what does it serve, with which settings, how is it doing."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pelton import __version__
from pelton.observability.metrics import CONTENT_TYPE
from pelton.server.admission import LEVEL_NAMES
from pelton.server.error_answer import JsonResponse
from pelton.server.state import ServerState


async def health(request: Request) -> Response:
    """200 while the engine makes progress or has nothing to do, else 503 with the reason."""
    state: ServerState = request.app.state.pelton
    problem = state.engine.parts.client.health_problem()
    if problem is not None:
        return JsonResponse({"status": "unhealthy", "reason": problem}, status_code=503)
    return JsonResponse({"status": "ok"})


async def ready(request: Request) -> Response:
    """200 while requests are taken, else 503 with the reason."""
    state: ServerState = request.app.state.pelton
    reason = state.engine.parts.client.health_problem()
    if state.admission.is_draining:
        reason = "the server is shutting down"
    elif reason is None and state.admission.num_live >= state.admission.max_live:
        reason = "the server is full"
    if reason is not None:
        return JsonResponse({"status": "not ready", "reason": reason}, status_code=503, headers={"retry-after": "1"})
    return JsonResponse({"status": "ready", "load": LEVEL_NAMES[state.admission.level]})


async def models(request: Request) -> Response:
    """The served model, under each of its names."""
    state: ServerState = request.app.state.pelton
    names = state.config.model.served_model_name
    return JsonResponse({"object": "list", "data": [describe_model(state, name) for name in names]})


async def model(request: Request) -> Response:
    """One name of the served model."""
    state: ServerState = request.app.state.pelton
    name = request.path_params["model"]
    state.check_model(name)
    return JsonResponse(describe_model(state, name))


def describe_model(state: ServerState, name: str) -> dict[str, object]:
    """A model in OpenAI's shape, with vLLM's max_model_len."""
    return {
        "id": name,
        "object": "model",
        "created": state.started_s,
        "owned_by": "pelton",
        "root": state.model_name,
        "parent": None,
        "max_model_len": state.engine.max_model_len,
    }


async def metrics(request: Request) -> Response:
    """Prometheus metrics."""
    state: ServerState = request.app.state.pelton
    return Response(state.metrics.render(), headers={"content-type": CONTENT_TYPE})


async def version(_request: Request) -> Response:
    """The version of Pelton."""
    return JsonResponse({"version": __version__})


async def config(request: Request) -> Response:
    """Every setting with its value, source and reason."""
    state: ServerState = request.app.state.pelton
    return JsonResponse(state.config_json())
