import pytest

from pelton.inspection.template_names import TemplateFacts, read_template

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            "{{ bos_token }}{% for m in messages %}{{ loop.index }}{{ m.content }}{% endfor %}",
            ["bos_token", "messages"],
        ),
        ("{% set x = 1 %}{{ x }}{{ enable_thinking }}", ["enable_thinking"]),
        ("{% macro f(a) %}{{ a }}{{ tools }}{% endmacro %}{{ f(1) }}", ["tools"]),
        ("{% generation %}{{ m }}{% endgeneration %}", ["m"]),
        ("{{ range(3) }}{{ namespace(a=1) }}{{ strftime_now('%d') }}", ["strftime_now"]),
        ("{{ 'a' * 10**12 }}{{ 9**9**9**9 }}", []),  # never computed
    ],
)
def test_names(template: str, expected: list[str]) -> None:
    assert read_template(template).variables == expected


@pytest.mark.parametrize("template", ["{% for %}", "{{ x", "{% endif %}"])
def test_what_cannot_be_parsed(template: str) -> None:
    facts = read_template(template)
    assert facts.problem is not None
    assert facts.problem.startswith("line 1: ")
    assert facts == TemplateFacts(problem=facts.problem)


def test_depth_is_no_crash() -> None:
    assert read_template("{{ " + "(" * 20_000 + " }}").problem is not None


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ messages | attr('__class__') }}",
    ],
)
def test_a_template_that_reaches_out(template: str) -> None:
    assert read_template(template).escapes


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{% if 'invoice' in message['content'] %}x{% endif %}", ["invoice"]),
        ("{% if message.content.startswith('Ignore') %}x{% endif %}", ["Ignore"]),
        ("{% if 'a word' in message.content | lower %}x{% endif %}", ["a word"]),
        ("{% set content = message.content %}{% if content == 'yes' %}x{% endif %}", ["yes"]),
        ("{% if '</think>' in message.content %}{{ content.split('</think>')[-1] }}{% endif %}", []),
        ("{% if message['role'] == 'assistant' %}{{ message.content }}{% endif %}", []),
        ("{% if message.content is string and message.content != '' %}x{% endif %}", []),
        ("{% if messages[0]['content'][0]['type'] == 'text' %}x{% endif %}", []),
    ],
)
def test_words_that_a_template_looks_for(template: str, expected: list[str]) -> None:
    assert read_template(template).triggers == expected
