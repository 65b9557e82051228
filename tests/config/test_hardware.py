import os
from pathlib import Path

import pytest

from pelton.config.hardware import Hardware, probe_hardware

pytestmark = pytest.mark.unit

CPUINFO = """\
processor\t: 0
model name\t: Example 9000
flags\t\t: fpu avx2 fma f16c {more}

processor\t: 1
model name\t: Another
flags\t\t: none
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two cores of two threads each."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/cpuinfo").write_text(CPUINFO.format(more=""))
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable:  600 kB\nHugePages_Total: 0\n")
    for cpu in range(4):
        topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("0\n")
        (topology / "core_id").write_text(f"{cpu // 2}\n")
    return tmp_path


def test_threads_of_a_core_count_once(root: Path):
    found = probe_hardware(root, cpus=range(4))
    assert (found.num_cpus, found.num_cores) == (4, 2)
    assert found.cpu_name == "Example 9000"
    assert found.total_memory_bytes == 1000 * 1024
    assert found.available_memory_bytes == 600 * 1024


def test_affinity_and_quota_bound_the_cores(root: Path):
    assert probe_hardware(root, cpus=[2]).num_cores == 1
    (root / "proc/self/cgroup").write_text("0::/\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/cpu.max").write_text("50000 100000")
    assert probe_hardware(root, cpus=range(4)).num_cores == 1
    assert probe_hardware(root, cpus=range(4)).num_cpus == 1


def test_a_container_bounds_the_memory(root: Path):
    (root / "proc/self/cgroup").write_text("0::/\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/memory.max").write_text("100")
    (root / "sys/fs/cgroup/memory.current").write_text("40")
    assert probe_hardware(root, cpus=[0]).available_memory_bytes == 60


@pytest.mark.parametrize(
    ("more", "isa"),
    [("", "avx2"), ("avx512f", "avx2"), ("avx512f avx512bw avx512dq avx512vl", "avx512")],
)
def test_instruction_sets(root: Path, more: str, isa: str):
    (root / "proc/cpuinfo").write_text(CPUINFO.format(more=more))
    assert probe_hardware(root, cpus=[0]).isa == isa


def test_a_machine_that_says_nothing(tmp_path: Path):
    found = probe_hardware(tmp_path, cpus=[0, 1])
    assert (found.num_cpus, found.num_cores, found.isa) == (2, 2, "generic")
    assert found.total_memory_bytes > 0


def test_this_machine():
    found = probe_hardware()
    assert isinstance(found, Hardware)
    assert 1 <= found.num_cores <= found.num_cpus <= (os.cpu_count() or 1)
    assert 0 < found.available_memory_bytes <= found.total_memory_bytes
