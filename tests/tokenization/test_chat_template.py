"""Templates in their own process: results come back, and hostile ones are stopped and forgotten."""

import asyncio
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pelton.errors import InternalError, RequestError
from pelton.tokenization import chat_template
from pelton.tokenization.chat_template import TemplateWorker

pytestmark = pytest.mark.cpu  # real processes

CHAT = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}"
    "{% if tools %}T{{ tools | length }}{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
HELLO = [{"role": "user", "content": "hello "}]


@pytest.fixture(scope="module")
def worker() -> Iterator[TemplateWorker]:
    with TemplateWorker() as made:
        yield made


@pytest.fixture(scope="module")
def strict_worker() -> Iterator[TemplateWorker]:
    with TemplateWorker(timeout_s=0.4, max_bytes=256 << 20) as made:
        yield made


def test_render(worker: TemplateWorker) -> None:
    text = worker.render(CHAT, HELLO, [{"type": "function"}], variables={"bos_token": "<s>"})
    assert text == "<s><user>hello</>T1<assistant>"
    assert worker.render(CHAT, HELLO, add_generation_prompt=False) == "<user>hello</>"


def test_render_async(worker: TemplateWorker) -> None:
    async def render_many() -> list[str]:
        return await asyncio.gather(*[worker.render_async("{{ messages[0].n }}", [{"n": n}]) for n in range(20)])

    assert asyncio.run(render_many()) == [str(n) for n in range(20)]


def test_many_threads_get_their_own_text(worker: TemplateWorker) -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: worker.render("{{ messages[0].n }}" * 50, [{"n": n}]), range(100)))
    assert texts == [str(n) * 50 for n in range(100)]


def test_large_conversation(worker: TemplateWorker) -> None:
    content = "x\u00e9" * 2_000_000
    assert worker.render("{{ messages[0].content }}", [{"content": content}]) == content


@pytest.mark.parametrize(
    ("content", "template", "expected"),
    [
        ("I am  ", "<{{ messages[-1].content }}</>", "<I am  "),
        ("I am  ", "<{{ messages[-1].content | trim }}</>", "<I am"),
        ([{"type": "text", "text": "part"}], "<{{ messages[-1].content[0].text }}</>", "<part"),
    ],
)
def test_continue_final_message(worker: TemplateWorker, content: object, template: str, expected: str) -> None:
    messages = [*HELLO, {"role": "assistant", "content": content}]
    assert worker.render(template, messages, None, False, True) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, HELLO), "no chat template. Use /v1/completions, or start the server with --chat-template"),
        ((CHAT, HELLO, None, True, True), "cannot both be true"),
        ((CHAT, [{"role": "assistant"}], None, False, True), "needs a last message with text"),
        ((CHAT, [], None, False, True), "needs a last message with text"),
        (("fixed", HELLO, None, False, True), "leaves out the last message"),
        (("\n{{ raise_exception('No system role') }}", HELLO), r"chat template: No system role \(line 2\)"),
    ],
)
def test_refusals(worker: TemplateWorker, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        worker.render(*arguments)  # type: ignore[arg-type]  # parametrized


def test_reserved_variables_are_refused(worker: TemplateWorker) -> None:
    with pytest.raises(RequestError, match="'messages' is set by the server"):
        worker.render(CHAT, HELLO, variables={"messages": []})


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 9999999 ** 9999999 }}",
        "{{ 'a' * 10 ** 10 }}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{{ '%1000000000d' % 1 }}",
    ],
)
def test_hostile_template_is_stopped_and_the_next_render_works(strict_worker: TemplateWorker, template: str) -> None:
    with pytest.raises(RequestError, match=r"took more than 0.4 s or 256 MiB|MemoryError|OverflowError"):
        strict_worker.render(template, HELLO)
    assert strict_worker.render("ok", HELLO) == "ok"


def test_process_that_does_not_start_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template.sys, "executable", "/bin/false")
    with TemplateWorker() as broken, pytest.raises(InternalError, match="does not start"):
        broken.render("x", HELLO)


def test_processes_end_with_the_worker() -> None:
    with TemplateWorker() as made:
        made.render("x", HELLO)
        processes = [child._process for child in made._idle]
        assert len(processes) == 1
    assert all(process.poll() is not None for process in processes)


def test_process_that_died_while_idle_is_replaced() -> None:
    with TemplateWorker() as made:
        made.render("x", HELLO)
        process = made._idle[0]._process
        process.kill()
        process.wait(30)
        assert made.render("y", HELLO) == "y"


def test_process_that_is_killed_while_it_renders_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemplateWorker() as made:
        made.render("x", HELLO)
        receive, killed = chat_template._Child._receive, []

        def kill_first(child: chat_template._Child, num_bytes: int, deadline_s: float) -> bytes:
            if not killed:
                killed.append(child._process.pid)
                os.kill(child._process.pid, signal.SIGSTOP)  # so that it has not answered yet
                os.kill(child._process.pid, signal.SIGKILL)
            return receive(child, num_bytes, deadline_s)

        monkeypatch.setattr(chat_template._Child, "_receive", kill_first)
        slow = "{% for a in range(99999) %}{% endfor %}done"
        assert made.render(slow, HELLO) == "done"
        assert [child._process.pid for child in made._idle] != killed


def test_process_that_is_killed_again_and_again_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, asked = chat_template._Child._receive, []

    def kill(child: chat_template._Child, num_bytes: int, deadline_s: float) -> bytes:
        if num_bytes == chat_template._LENGTH.size and asked and asked[-1] is child:
            child._process.kill()
        asked.append(child)
        return receive(child, num_bytes, deadline_s)

    with TemplateWorker() as made:
        monkeypatch.setattr(chat_template._Child, "_receive", kill)
        with pytest.raises(RequestError, match="chat template: stopped"):
            made.render("{% for a in range(99999) %}{% endfor %}done", HELLO)
        assert made._idle == []


def test_interrupted_render_leaves_no_answer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with TemplateWorker() as made:
        made.render("x", HELLO)
        with monkeypatch.context() as patch:
            patch.setattr(chat_template.json, "loads", interrupt)
            with pytest.raises(KeyboardInterrupt):
                made.render("old", HELLO)
        assert made._idle == []
        assert made.render("new", HELLO) == "new"


def test_render_that_ends_after_close_leaves_no_process() -> None:
    made = TemplateWorker()
    made.close()
    assert made.render("x", HELLO) == "x"
    assert made._idle == []
