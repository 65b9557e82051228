import pytest

from pelton.inspection.template_names import find_variables

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
    assert find_variables(template) == (expected, None)


@pytest.mark.parametrize("template", ["{% for %}", "{{ x", "{% endif %}"])
def test_what_cannot_be_parsed(template: str) -> None:
    names, problem = find_variables(template)
    assert names == []
    assert problem is not None
    assert problem.startswith("line 1: ")


def test_depth_is_no_crash() -> None:
    _, problem = find_variables("{{ " + "(" * 20_000 + " }}")
    assert problem is not None
