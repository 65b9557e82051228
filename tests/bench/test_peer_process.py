"""The protocol with real child processes: short scripts of Python that know no engine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bench.fake_peer import ECHO, START, write_peer

from pelton.bench.peer_process import PeerFacts, PeerProcess, find_peer_script
from pelton.errors import ConfigError, TransferError

pytestmark = pytest.mark.unit


def start(folder: Path, code: str) -> PeerProcess:
    return PeerProcess("flat", [sys.executable, str(write_peer(folder, code))], sleep=lambda _: None)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for_state(pid: int, wanted: str) -> bool:
    for _ in range(500):
        if state_of(pid) in wanted:
            return True
        time.sleep(0.002)  # signals take effect when the kernel likes; nothing tells
    return False


def test_it_says_what_it_is_and_answers(tmp_path: Path) -> None:
    with start(tmp_path, ECHO) as peer:
        facts = peer.wait_until_ready()
        assert facts == PeerFacts(engine="flat", version="1", model="m", precision="none", load_s=0.5)
        assert peer.ask({"batch": 1, "text": "\u00e9\n"}) == {"batch": 1, "text": "\u00e9\n"}
        with pytest.raises(TransferError, match=r'flat could not do \{"batch": 100\}: too much'):
            peer.ask({"batch": 100})
        assert peer.ask({"batch": 2}) == {"batch": 2}


def test_frozen_means_stopped(tmp_path: Path) -> None:
    with start(tmp_path, ECHO) as peer:
        peer.wait_until_ready()
        peer.freeze()
        peer.freeze()
        assert wait_for_state(peer.pid, "T")
        peer.thaw()
        assert wait_for_state(peer.pid, "RS")
        assert peer.ask({"batch": 1}) == {"batch": 1}
        peer.freeze()
        pid = peer.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_its_last_words_are_quoted(tmp_path: Path) -> None:
    code = "import sys\nfor i in range(40): print('line', i, file=sys.stderr)\nsys.exit(3)"
    with start(tmp_path, code) as peer, pytest.raises(TransferError) as caught:
        peer.wait_until_ready()
    message = str(caught.value)
    assert message.startswith("flat ended with exit code 3. The end of what it wrote to stderr: line 28 | ")
    assert message.endswith("| line 39")
    assert "line 27" not in message


def test_one_that_ends_during_a_question(tmp_path: Path) -> None:
    with start(tmp_path, f"{START}\nsys.stdin.readline()\nsys.exit('no more')") as peer:
        peer.wait_until_ready()
        with pytest.raises(TransferError, match=r"(?s)ended with exit code 1.*no more"):
            peer.ask({"batch": 1})


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("print('Loading...')", r"wrote b'Loading\.\.\.' to stdout, expected one line of JSON"),
        ("print('[1]')", r"wrote b'\[1\]' to stdout"),
        ('print(\'{"engine": "x"}\')', "which is no description of itself"),
    ],
)
def test_what_is_no_protocol(tmp_path: Path, code: str, message: str) -> None:
    with start(tmp_path, code) as peer, pytest.raises(TransferError, match=message):
        peer.wait_until_ready()


def test_silence_has_a_limit(tmp_path: Path) -> None:
    with (
        start(tmp_path, "import sys; sys.stdin.read()") as peer,
        pytest.raises(TransferError, match="no answer in 0 s"),
    ):
        peer.wait_until_ready(timeout_s=0.05)


def test_a_python_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"llama: \./no-python cannot be run \(No such file"):
        PeerProcess("llama", ["./no-python", "x.py"])


def test_a_frozen_peer_does_not_outlive_its_parent(tmp_path: Path) -> None:
    """The parent is killed with the peer frozen: the kernel wakes the peer, which finds its stdin closed."""
    script = write_peer(tmp_path, ECHO)
    parent_code = (
        "import sys, time\nfrom pelton.bench.peer_process import PeerProcess\n"
        f"peer = PeerProcess('flat', [sys.executable, {str(script)!r}])\npeer.wait_until_ready()\npeer.freeze()\n"
        "print(peer.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent_code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert wait_for_state(pid, "T")
        parent.send_signal(signal.SIGKILL)
    for _ in range(1000):
        try:
            if state_of(pid) == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the peer has outlived its parent")


def test_scripts_are_found_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="'llama_cpp' is neither a script nor the name of one"):
        find_peer_script("llama_cpp")
    script = tmp_path / "benchmarks" / "peers" / "llama_cpp_peer.py"
    script.parent.mkdir(parents=True)
    script.write_text("")
    assert find_peer_script("llama_cpp").resolve() == script
    assert find_peer_script(str(script)) == script
    with pytest.raises(ConfigError, match="Known here: llama_cpp"):
        find_peer_script("vllm")
