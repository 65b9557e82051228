from pathlib import Path

import pytest

from pelton.config.file import load_config_file
from pelton.errors import ConfigError

pytestmark = pytest.mark.unit


def load(folder: Path, text: str | bytes):
    path = folder / "serve.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config_file(path)


def test_nested_and_flat_keys_with_either_dash(tmp_path: Path):
    asked = load(
        tmp_path,
        """
        model: demo
        max-model-len: 8k
        server: {port: 8001, allowed-origins: [https://a.example]}
        scheduler:
          max_num_seqs: 4
        shutdown_timeout_s: 5
        block_size: auto
        api_key:
        """,
    )
    assert {name: asked.get(name) for name in asked} == {
        "model": "demo",
        "max_model_len": 8000,
        "port": 8001,
        "allowed_origins": ("https://a.example",),
        "max_num_requests": 4,
        "shutdown_timeout_s": 5.0,
    }
    assert asked.where("port").endswith("serve.yaml: server.port")


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_asks_for_nothing(tmp_path: Path, text: str):
    assert list(load(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot: 1", "'prot' is not a known setting. Did you mean 'port'?"),
        ("server: {prot: 1}", "'prot' is not a known setting"),
        ("servr: {port: 1}", "'servr' is not a section. Did you mean 'server'?"),
        ("cache: {port: 1}", "port belongs to section 'server'"),
        ("port: 1\nport: 2", "line 2: 'port' is given twice"),
        ("server: {port: 1, port: 2}", "'port' is given twice"),
        ("port: 1\nserver: {port: 1}", "server.port: already given as"),
        ("max-model-len: 1\nmax_model_len: 1", "already given as"),
        ("max_num_seqs: 1\nmax_num_requests: 1", "already given as"),
        ("port: '1'", "port: '1' is not a whole number"),
        ("exact: 'yes'", "'yes' is not true or false"),
        ("port: {a: 1}", "'port' is not a section"),
        ("server: {port: {a: 1}}", "expected 'name: value'"),
        ("server: {5: 1}", "expected 'name: value'"),
        ("5: 1", "key 5 is a int"),
        ("- port", "holds a list"),
        ("just text", "holds a str"),
        ("a: [", "not a YAML file"),
        ("a: !!python/object/apply:os.system ['true']", "not a YAML file"),
        (b"a: \xff", "not a YAML file"),
        ("a: 1\n---\nb: 2", "not a YAML file"),
        ("num_blocks: 5", "num_blocks follows from other settings"),
    ],
)
def test_what_is_not_a_setting_is_refused(tmp_path: Path, text: str | bytes, message: str):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert "serve.yaml" in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_config_file(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config_file(tmp_path)
