from pathlib import Path

import pytest

from pelton.config.cgroup import read_available_bytes, read_num_cpus

pytestmark = pytest.mark.unit


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_no_control_groups_mean_no_limit(tmp_path: Path):
    assert read_available_bytes(tmp_path) is None
    assert read_num_cpus(tmp_path) is None


def test_version_2_takes_the_tightest_on_the_path(tmp_path: Path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/memory.current": "5\n",
            "sys/fs/cgroup/a/memory.max": "1000\n",
            "sys/fs/cgroup/a/memory.current": "900\n",
            "sys/fs/cgroup/a/memory.stat": "anon 100\ninactive_file 300\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/cpu.max": "800000 100000\n",
        },
    )
    assert read_available_bytes(root) == 400
    assert read_num_cpus(root) == 1.5


def test_version_1_and_its_way_to_say_no_limit(tmp_path: Path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/c\n3:cpu,cpuacct:/c\n2:name=systemd:/\n0::/\n",
            "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "2000\n",
            "sys/fs/cgroup/memory/c/memory.usage_in_bytes": "500\n",
            "sys/fs/cgroup/memory/c/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "600\n",
            "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000\n",
        },
    )
    assert read_available_bytes(root) == 1600
    assert read_num_cpus(root) is None
    write(root, {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"})
    assert read_num_cpus(root) == 0.5


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path):
    files = {"memory.max": "10", "memory.current": "20", "memory.stat": "inactive_file 3"}
    root = write(tmp_path, {"proc/self/cgroup": "0::/\n"} | {f"sys/fs/cgroup/{k}": v for k, v in files.items()})
    assert read_available_bytes(root) == 0
