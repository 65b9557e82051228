"""Starts with a weight cache: the same logits bit for bit, and a rebuilt entry after everything that can go wrong."""

import logging
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.fakes import TinyModel
from tests.file_clock import wait_for_tick
from tests.steps import LIMITS

from pelton.backends.cpu import CpuBackend, weight_cache
from pelton.backends.cpu.weight_cache import SUFFIX, TEMPORARY, Deadline, WeightCache, check_folder, evict, hold_lock
from pelton.checkpoint import mapped_file
from pelton.checkpoint.checkpoint import open_checkpoint
from pelton.loading import load_model
from pelton.runner.direct_step import stream_logits
from pelton.runner.kv_pool import KvPool

pytestmark = pytest.mark.cpu

TOKENS = list(b"To be, or not to be")
LARGE = 1 << 30


@pytest.fixture(autouse=True)
def _files_are_old(monkeypatch):
    monkeypatch.setattr(mapped_file, "SETTLED_NS", -LARGE)


@pytest.fixture
def model(tmp_path):
    return TinyModel().write(tmp_path / "tiny")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "packed"


class Start:
    """One start of the model in `model`: its logits, and what the cache did."""

    def __init__(self, model: Path, folder: Path, *, max_bytes: int = LARGE, min_bytes: int = 0) -> None:
        self.fractions: list[float] = []
        with open_checkpoint(model) as checkpoint:
            cache = WeightCache(folder, max_bytes, checkpoint.files, min_bytes=min_bytes)
            loaded = load_model(checkpoint, CpuBackend(cache, self.fractions.append), LIMITS, 128)
            cache.wait()
        executable = loaded.executable
        self.is_from_cache = executable.is_from_cache
        pool = KvPool(8, executable.kv_bytes_per_block)
        executable.bind_kv(pool.memory, 8)
        pieces = stream_logits(executable, TOKENS, list(range(8)), chunk=64, max_blocks=8)
        self.logits = np.concatenate(list(pieces))


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def test_the_second_start_reads_what_the_first_one_packed(model, folder):
    first, second = Start(model, folder), Start(model, folder)
    assert (first.is_from_cache, second.is_from_cache) == (False, True)
    assert first.logits.tobytes() == second.logits.tobytes()
    assert len(entries(folder)) == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    for start in (first, second):
        assert start.fractions == sorted(start.fractions)
        assert start.fractions[-1] == 1.0


@pytest.mark.parametrize("damage", ["truncated", "in the header", "in the data", "empty", "of another version"])
def test_a_damaged_entry_is_told_and_rebuilt(model, folder, damage, caplog):
    first = Start(model, folder)
    (entry,) = entries(folder)
    whole = bytearray(entry.read_bytes())
    if damage == "truncated":
        whole = whole[:-1]
    elif damage == "empty":
        whole = whole[:0]
    elif damage == "of another version":
        whole[7] ^= 1
    else:
        whole[60 if damage == "in the header" else -100] ^= 1
    entry.write_bytes(whole)
    caplog.set_level(logging.WARNING, "pelton")
    second = Start(model, folder)
    assert not second.is_from_cache
    assert "packed again" in caplog.text
    assert second.logits.tobytes() == first.logits.tobytes()
    assert Start(model, folder).is_from_cache


def test_an_entry_under_the_name_of_another_is_not_used(model, folder, tmp_path):
    Start(model, folder)
    (entry,) = entries(folder)
    other = TinyModel(seed=1).write(tmp_path / "other")
    expected = Start(other, tmp_path / "elsewhere")
    (name,) = (path.name for path in entries(tmp_path / "elsewhere"))
    entry.rename(folder / name)
    found = Start(other, folder)
    assert not found.is_from_cache
    assert found.logits.tobytes() == expected.logits.tobytes()


def test_another_checkpoint_of_the_same_name_and_size_is_packed_anew(model, folder, tmp_path):
    Start(model, folder)
    weights = model / "model.safetensors"
    other = TinyModel(seed=1).write(tmp_path / "other") / "model.safetensors"
    times = weights.stat()
    assert other.stat().st_size == times.st_size
    wait_for_tick(weights)
    weights.write_bytes(other.read_bytes())
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = Start(model, folder)
    assert not changed.is_from_cache
    assert changed.logits.tobytes() == Start(tmp_path / "other", folder).logits.tobytes()


def test_a_file_written_a_moment_ago_is_neither_kept_nor_looked_for(model, folder, monkeypatch):
    monkeypatch.setattr(mapped_file, "SETTLED_NS", LARGE * LARGE)
    Start(model, folder)
    assert not folder.exists()


def test_a_checkpoint_that_changes_while_it_is_packed_is_not_kept(model, folder, monkeypatch):
    weights = model / "model.safetensors"

    def touch_and_hash(path, check):
        os.utime(weights, ns=(1, 1))
        return "0" * 64

    monkeypatch.setattr(weight_cache, "compute_sha256", touch_and_hash)
    Start(model, folder)
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_program_that_ends_waits_for_a_moment_and_leaves_nothing_half_written(model, folder, monkeypatch, caplog):
    def abandon(*_):
        raise weight_cache.Abandoned

    monkeypatch.setattr(Deadline, "check", abandon)
    caplog.set_level(logging.INFO, "pelton")
    Start(model, folder)
    assert "the program ends" in caplog.text
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_the_moment_begins_when_the_main_thread_has_ended():
    now = [100.0]
    main = threading.Thread(target=lambda: None)  # not alive before it starts
    deadline = Deadline(threading.current_thread(), lambda: now[0])
    now[0] += 1000
    deadline.check()
    deadline = Deadline(main, lambda: now[0])
    deadline.check()
    now[0] += weight_cache.EXIT_GRACE_S
    deadline.check()
    now[0] += 0.1
    with pytest.raises(weight_cache.Abandoned):
        deadline.check()


def test_small_and_too_large_weights_are_not_kept(model, folder):
    Start(model, folder, min_bytes=LARGE)
    Start(model, folder, max_bytes=100)
    assert not folder.exists()


def test_those_used_longest_ago_leave_first(model, folder, tmp_path):
    Start(model, folder)
    (first,) = entries(folder)
    size = first.stat().st_size
    Start(TinyModel(seed=1).write(tmp_path / "b"), folder)
    (second,) = (path for path in entries(folder) if path != first)
    os.utime(first, ns=(1, 1))
    os.utime(second, ns=(2, 2))
    assert Start(model, folder).is_from_cache  # which makes the second the older one
    Start(TinyModel(seed=2).write(tmp_path / "c"), folder, max_bytes=2 * size + size // 2)
    assert first in entries(folder)
    assert second not in entries(folder)
    assert len(evict(folder, 0)) == 2
    assert not entries(folder)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(model, folder, mode, caplog):
    Start(model, folder)
    folder.chmod(mode)
    caplog.set_level(logging.WARNING, "pelton")
    assert not Start(model, folder).is_from_cache
    assert "writable by nobody else" in caplog.text


def test_an_entry_that_others_may_write_to_or_that_is_a_link_is_not_read(model, folder, tmp_path):
    Start(model, folder)
    (entry,) = entries(folder)
    entry.chmod(0o666)
    assert not Start(model, folder).is_from_cache
    (entry,) = entries(folder)
    entry.rename(tmp_path / "moved")
    entry.symlink_to(tmp_path / "moved")
    assert not Start(model, folder).is_from_cache


def test_a_folder_that_cannot_be_made_is_a_warning(model, tmp_path, caplog):
    (tmp_path / "file").write_text("not a folder")
    caplog.set_level(logging.WARNING, "pelton")
    assert not Start(model, tmp_path / "file" / "packed").is_from_cache
    assert "cannot be kept" in caplog.text


def test_a_folder_that_cannot_be_written_is_still_read(model, folder, monkeypatch):
    Start(model, folder)

    def refuse(*_, **__):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(weight_cache.os, "utime", refuse)
    monkeypatch.setattr(weight_cache, "hold_lock", refuse)
    assert Start(model, folder).is_from_cache


@pytest.mark.parametrize("where", ["write_file", "hold_lock"])
def test_a_full_disk_is_a_warning_and_leaves_nothing(model, folder, where, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(weight_cache, where, refuse)
    caplog.set_level(logging.WARNING, "pelton")
    Start(model, folder)
    assert "could not be kept" in caplog.text
    assert [path.name for path in folder.iterdir() if path.name != "lock"] == []


def test_a_nearly_full_disk_is_left_alone(model, folder, monkeypatch, caplog):
    monkeypatch.setattr(weight_cache, "SPARE_DISK_BYTES", 1 << 60)
    caplog.set_level(logging.WARNING, "pelton")
    Start(model, folder)
    assert "nearly full" in caplog.text
    assert not entries(folder)


def test_who_finds_the_folder_locked_does_not_write(model, folder):
    folder.mkdir(mode=0o700)
    with hold_lock(folder) as is_held:
        assert is_held
        Start(model, folder)
    assert not entries(folder)


def test_what_a_killed_writer_left_is_removed(model, folder):
    folder.mkdir(mode=0o700)
    (folder / f"{TEMPORARY}abc").write_bytes(b"half")
    Start(model, folder)
    assert sorted(path.suffix for path in folder.iterdir()) == ["", SUFFIX]
    assert not list(folder.glob(f"{TEMPORARY}*"))


def test_two_processes_at_once_leave_one_good_entry(model, folder):
    code = textwrap.dedent(f"""
        from pathlib import Path
        from pelton.checkpoint import mapped_file
        from tests.backends.cpu.test_weight_cache import Start
        mapped_file.SETTLED_NS = {-LARGE}
        print(hash(Start(Path({str(model)!r}), Path({str(folder)!r})).logits.tobytes()))
    """)
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1]
    assert len(entries(folder)) == 1
    assert Start(model, folder).is_from_cache
    assert [problem for _, _, problem in check_folder(folder)] == [None]


def test_the_check_finds_damage_and_changed_models(model, folder, monkeypatch):
    Start(model, folder)
    (entry,) = entries(folder)
    assert [(path, problem) for path, _, problem in check_folder(folder)] == [(entry, None)]
    with monkeypatch.context() as patch:
        patch.setattr(weight_cache, "compute_sha256", lambda _: "1" * 64)
        ((_, of, problem),) = check_folder(folder)
        assert of == str(model / "model.safetensors")
        assert problem is not None
        assert "other bytes" in problem
    with entry.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    ((_, _, problem),) = check_folder(folder)
    assert problem is not None
    assert "checksum" in problem


def test_the_program_waits_for_an_entry_that_a_daemon_thread_began(model, folder, monkeypatch):
    is_daemon: list[bool] = []
    monkeypatch.setattr(
        weight_cache, "compute_sha256", lambda *_: is_daemon.append(threading.current_thread().daemon) or "0" * 64
    )
    thread = threading.Thread(target=Start, args=(model, folder), daemon=True)
    thread.start()
    thread.join()
    assert is_daemon == [False]
