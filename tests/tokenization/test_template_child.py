"""The template dialect, and that the sandbox holds."""

import json
import socket
import subprocess
import sys
from datetime import datetime

import pytest

from pelton.tokenization import template_child

pytestmark = pytest.mark.cpu  # real processes


def render(template: str, **variables: object) -> dict[str, object]:
    compiled = template_child.make_environment().from_string
    return template_child.answer({"template": template, "variables": variables}, compiled)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        (
            "{% for i in [0, 1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% endif %}"
            "{% if i > 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "013",
        ),
        ("a{% generation %}b{{ 1 }}{% endgeneration %}c", "ab1c"),
        ("{% set x = 1 %}{% generation %}{% set x = 2 %}{% endgeneration %}{{ x }}", "1"),
        ("{{ {'a': '<\u00e9 &>', 'b': [1, none, true]} | tojson }}", '{"a": "<\u00e9 &>", "b": [1, null, true]}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}", '{"a":2,"b":1}'),
        ("{{ '\u00e9' | tojson(ensure_ascii=true) }}", '"\\u00e9"'),
        ("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "3"),
        ("{{ missing }}|{{ missing is defined }}", "|False"),
        ("{{ 'a-b'.split('-')[::-1] | join('+') }}", "b+a"),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}", "[1]"),
        ("{{ '{{ 7*7 }}' }}", "{{ 7*7 }}"),
        ("{%- for m in messages -%} {{ loop.index0 }}{{ m.role }} {%- endfor %}", "0user"),
    ],
)
def test_dialect(template: str, text: str) -> None:
    assert render(template, messages=[{"role": "user"}]) == {"text": text}


def test_time() -> None:
    assert render("{{ strftime_now('%Y') }}") == {"text": datetime.now().strftime("%Y")}


@pytest.mark.parametrize(
    ("template", "error", "line"),
    [
        ("\n\n{{ raise_exception('roles must alternate') }}", "roles must alternate", 3),
        ("a\n{% if %}", "Expected an expression", 2),
        ("a\n\n{{ messages[7].role.x }}", "has no element 7", 3),
        ("{{ 1 / 0 }}", "ZeroDivisionError", 1),
        ("{{ 'a' + 1 }}", "TypeError", 1),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError", 1),
        ("{{ ''.__class__.__mro__ }}", "unsafe", 1),
        ("{{ messages.append(1) }}", "unsafe", 1),
        ("{{ raise_exception.__globals__['x'] }}", "unsafe", 1),
        ("{{ range(10 ** 9) }}", "OverflowError", 1),
        ("{% include 'x' %}", "no loader", 1),
    ],
)
def test_what_a_template_does_wrong_is_told_with_its_line(template: str, error: str, line: int) -> None:
    found = render(template, messages=[])
    assert error in str(found["error"])
    assert found["line"] == line


@pytest.mark.parametrize("template", ["{{ raise_exception.__globals__ }}", "{{ '{0.__class__}'.format(1) }}"])
def test_what_is_unsafe_shows_as_nothing(template: str) -> None:
    assert render(template) == {"text": ""}


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_child, "MAX_OUTPUT_CHARS", 10)
    assert "11 characters" in str(render("{{ 'a' * 11 }}")["error"])


def test_process_answers_until_the_socket_closes() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", template_child.__file__, str(theirs.fileno()), str(512 << 20)],
            pass_fds=[theirs.fileno()],
        )
    with ours:
        ours.settimeout(30)
        for number in range(3):
            request = json.dumps({"template": "{{ n }}", "variables": {"n": number}}).encode()
            ours.sendall(template_child.LENGTH.pack(len(request)) + request)
            (num_bytes,) = template_child.LENGTH.unpack(template_child.receive(ours, 4))
            assert json.loads(template_child.receive(ours, num_bytes)) == {"text": str(number)}
    assert process.wait(30) == 0


def test_process_imports_nothing_of_the_engine() -> None:
    run = f"runpy.run_path({template_child.__file__!r})"
    code = f"import runpy, sys; {run}; print({{'pelton', 'numpy'}} & {{*sys.modules}})"
    assert (
        subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True).stdout.strip() == b"set()"
    )


def test_limits_are_set_before_the_first_template(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(template_child.resource, "setrlimit", limits.__setitem__)
    ours, theirs = socket.socketpair()
    request = b'{"template": "x", "variables": {}}'
    with ours:
        ours.sendall(template_child.LENGTH.pack(len(request)) + request)
        ours.shutdown(socket.SHUT_WR)
        template_child.main(theirs.detach(), 1 << 28)
        assert template_child.receive(ours, 4 + 13)[4:] == b'{"text": "x"}'
    resource = template_child.resource
    assert limits[resource.RLIMIT_AS] == (1 << 28, 1 << 28)
    assert limits[resource.RLIMIT_FSIZE] == limits[resource.RLIMIT_CORE] == (0, 0)
    assert limits[resource.RLIMIT_CPU][0] >= 10
