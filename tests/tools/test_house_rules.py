import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

TOOL = Path(__file__).parents[2] / "tools" / "house_rules.py"
spec = importlib.util.spec_from_file_location("house_rules", TOOL)
assert spec
assert spec.loader
rules = importlib.util.module_from_spec(spec)
sys.modules["house_rules"] = rules
spec.loader.exec_module(rules)

HEAD = '"""Idea."""\n'
# Put together here, so that this file has no finding of its own.
SLASH = "/"

BAD = [
    ("file_size", "src/pelton/a.py", HEAD + "\n" * 400),
    ("file_size", "csrc/a.cc", "\n" * 401),
    ("function_size", "tests/test_a.py", "def f():\n" + "    x = 1\n" * 60),
    ("function_size", "src/pelton/a.py", HEAD + "def f(a, b, c, d, e, f, g, h): ...\n"),
    ("module_docstring", "src/pelton/a.py", "x = 1\n"),
    ("module_docstring", "tools/a.py", '"""' + "a\n" * 12 + 'b"""\n'),
    ("forbidden_file_name", "src/pelton/utils.py", HEAD),
    ("forbidden_file_name", "tests/helpers/a.py", HEAD),
    ("forbidden_file_name", "csrc/common/a.h", ""),
    ("forbidden_name", "src/pelton/a.py", HEAD + "class BlockManager: ...\n"),
    ("forbidden_name", "src/pelton/a.py", HEAD + "for idx in (): ...\n"),
    ("forbidden_name", "src/pelton/a.py", HEAD + "def f(cfg): ...\n"),
    ("forbidden_name", "src/pelton/a.py", HEAD + "def n_blocks(): ...\n"),
    ("no_hasattr", "tests/test_a.py", "hasattr(1, 'real')\n"),
    ("no_print_style_raise", "src/pelton/a.py", HEAD + "raise ValueError('wrong:', 3)\n"),
    ("no_print_style_raise", "src/pelton/a.py", HEAD + "raise errors.ConfigError(f'wrong {1}', 3)\n"),
    ("environment_in_one_file", "src/pelton/a.py", HEAD + "import os\nos.environ['A']\n"),
    ("environment_in_one_file", "src/pelton/a.py", HEAD + "from os import getenv\n"),
    ("native_in_one_folder", "src/pelton/runner/a.py", HEAD + "from pelton.backends.cpu import _native\n"),
    ("native_in_one_folder", "src/pelton/runner/a.py", HEAD + "import pelton.backends.cpu._native\n"),
    ("no_code_from_data", "src/pelton/a.py", HEAD + "import pickle\n"),
    ("no_code_from_data", "src/pelton/a.py", HEAD + "from marshal import loads\n"),
    ("no_code_from_data", "src/pelton/a.py", HEAD + "eval('1')\n"),
    ("no_code_from_data", "src/pelton/a.py", HEAD + "np.load('a', allow_pickle=True)\n"),
    ("no_broad_except", "src/pelton/a.py", HEAD + "try: ...\nexcept Exception: ...\n"),
    ("no_broad_except", "src/pelton/a.py", HEAD + "try: ...\nexcept: ...\n"),
    ("no_broad_except", "src/pelton/a.py", HEAD + "try: ...\nexcept (KeyError, BaseException): ...\n"),
    ("todo_form", "src/pelton/a.py", HEAD + "# TO" + "DO: later\n"),
    ("todo_form", "csrc/a.cc", "// FIX" + "ME(#3): this form is for the other word\n".replace("(#3)", "")),
    ("no_banner", "src/pelton/a.py", HEAD + "# " + "=" * 8 + " Setup\n"),
    ("no_banner", "csrc/a.cc", "//" + "-" * 20 + "\n"),
    ("ascii_only", "src/pelton/a.py", HEAD + "x = '\u00e9'\n"),
    ("no_machine_in_text", "README.md", f"see {SLASH}tmp/models\n"),
    ("no_machine_in_text", "tests/test_a.py", f"'{SLASH}root/x'\n"),
    ("no_machine_in_text", "Makefile", "pip install -i https://py" + "pi.org/simple\n"),
]

GOOD = [
    ("file_size", "src/pelton/a.py", HEAD + "\n" * 399),
    ("function_size", "src/pelton/a.py", HEAD + "def f(self, a, b, c, d, e, f, g, *, h): ...\n"),
    ("module_docstring", "tests/test_a.py", "x = 1\n"),
    ("forbidden_name", "tests/test_a.py", "idx = 1\n"),
    ("forbidden_name", "src/pelton/a.py", HEAD + "num_blocks = block_index = 1\n"),
    (
        "no_print_style_raise",
        "src/pelton/a.py",
        HEAD + "raise RequestError('wrong', param='n')\nraise unknown('kind', 'x')\n",
    ),
    ("environment_in_one_file", "src/pelton/config/env.py", HEAD + "import os\nos.environ['A']\n"),
    ("native_in_one_folder", "src/pelton/backends/cpu/a.py", HEAD + "from pelton.backends.cpu import _native\n"),
    ("no_code_from_data", "src/pelton/a.py", HEAD + "model.eval()\nnp.load('a', allow_pickle=False)\n"),
    ("no_broad_except", "src/pelton/a.py", HEAD + "try: ...\nexcept BaseException:\n    clean()\n    raise\n"),
    ("no_broad_except", "src/pelton/server/border.py", HEAD + "try: ...\nexcept Exception: ...\n"),
    ("todo_form", "src/pelton/a.py", HEAD + "# TO" + "DO(#12): reason\n"),
    ("no_banner", "src/pelton/a.py", HEAD + "#  -- a dash\n"),
    ("no_machine_in_text", "a.md", f"~{SLASH}work/x https://a.b{SLASH}tmp/ src{SLASH}root.py at-{SLASH}tmp\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_a_bad_sample_has_one_finding(rule: str, path: str, text: str):
    findings = list(getattr(rules, rule)(rules.Source(path, text)))
    assert len(findings) == 1
    assert findings[0].path == path
    assert 1 <= findings[0].line <= text.count("\n") + 1


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_a_good_sample_has_none(rule: str, path: str, text: str):
    assert list(getattr(rules, rule)(rules.Source(path, text))) == []


def test_every_file_rule_has_a_bad_sample():
    assert {name for name, _, _ in BAD} == {rule.__name__ for rule in rules.FILE_RULES}


def test_code_needs_a_mirrored_test_and_data_does_not():
    code = rules.Source("src/pelton/core/step.py", HEAD + "def f(): ...\n")
    data = rules.Source("src/pelton/core/outputs.py", HEAD + "x = 1\n")
    assert [f.message for f in rules.mirrored_tests([code, data])] == ["has no tests/core/test_step.py"]
    assert list(rules.mirrored_tests([code, rules.Source("tests/core/test_step.py", "")])) == []


def test_a_setting_that_nothing_reads_is_a_finding():
    reader = rules.Source("src/pelton/server/a.py", HEAD + "config.port\nask('host')\n")
    unread = {finding.message.split()[-1] for finding in rules.settings_are_read([reader])}
    assert "max_model_len" in unread
    assert not unread & {"port", "host"}


def test_too_many_flags_are_a_finding():
    many = "".join(f"@click.option('--x{i}/--no-x{i}')\n" for i in range(rules.MAX_FLAGS + 1)) + "def f(): ...\n"
    findings = list(rules.ceilings([rules.Source("src/pelton/cli/a.py", HEAD + many)]))
    assert len(findings) == 1
    assert f"at most {rules.MAX_FLAGS}" in findings[0].message


def test_files_of_a_tree_without_git_are_found(tmp_path: Path):
    for name in ("src/a.py", "build/b.py", "src/__pycache__/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(HEAD)
    assert [source.path for source in rules.load_sources(tmp_path)] == ["src/a.py"]


def test_this_tree_has_no_machine_path():
    root = TOOL.parent.parent
    assert [f for s in rules.load_sources(root) for f in rules.no_machine_in_text(s)] == []
