"""`pelton doctor [MODEL]`: what this machine has, what Pelton can use of it, and which kernel each op of MODEL gets.

Changes nothing and, without MODEL, loads no native code: it must also work where the kernels do not.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import click

from pelton import __version__
from pelton.checkpoint.hub import list_models, where
from pelton.cli.table import format_table
from pelton.config.env import Environment, find_misspelled, get_environment
from pelton.config.hardware import Hardware, probe_hardware
from pelton.config.memory_rule import format_bytes

NATIVE_MODULE = "pelton.backends.cpu._native"


@click.command()
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(model: str | None, as_json: bool) -> None:
    """Look at this machine and, with MODEL, at the kernel that each of its ops gets, and why."""
    environment = get_environment()
    facts = describe_machine(probe_hardware(), environment)
    kernels = explain(model) if model else []
    if as_json:
        rows = [{"op": op, "kernel": kernel, "why": why} for op, kernel, why in kernels]
        click.echo(json.dumps({**facts, "kernels": rows} if model else facts, indent=2))
        return
    click.echo(format_table(list(facts.items())))
    if kernels:
        click.echo(f"\n{format_table([('op', 'kernel', 'why'), *kernels])}")
    for sentence in find_misspelled():
        click.echo(f"pelton: warning: {sentence}", err=True)


def describe_machine(hardware: Hardware, environment: Environment) -> dict[str, str]:
    """What there is, by name."""
    isa = hardware.isa
    if environment.isa is not None:
        isa = f"{environment.isa} (PELTON_ISA; the machine has {hardware.isa})"
    extras = sorted(hardware.cpu_flags & {"avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"})
    is_built = importlib.util.find_spec(NATIVE_MODULE) is not None
    cached = [model.name for model in list_models() if where(model.name) is not None]
    free = format_bytes(hardware.available_memory_bytes)
    return {
        "pelton": __version__,
        "processor": f"{hardware.cpu_name} ({hardware.machine})",
        "cores": f"{hardware.num_cores} physical, {hardware.num_cpus} CPUs available to this process",
        "instruction set": isa + (f", with {', '.join(extras)}" if extras else ""),
        "kernels": "built" if is_built else "not built: run 'make native'",
        "memory": f"{free} free of {format_bytes(hardware.total_memory_bytes)}",
        "huge pages": read_huge_pages(),
        "cache": f"{environment.cache_dir} ({describe_disk(environment.cache_dir)})",
        "models in the cache": ", ".join(cached) or "none",
        "downloads": "switched off by PELTON_OFFLINE" if environment.is_offline else "allowed",
    }


def describe_disk(folder: Path) -> str:
    """How much fits into `folder`, which need not exist yet."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return f"{format_bytes(shutil.disk_usage(existing).free)} free"


def read_huge_pages(root: Path = Path("/")) -> str:
    """The kernel's setting for transparent huge pages; weights are read faster from them."""
    try:
        text = (root / "sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return "unknown"
    chosen = text.partition("[")[2].partition("]")[0] or "unknown"
    return {"never": "off: weights are read more slowly", "madvise": "on request", "always": "always"}.get(
        chosen, chosen
    )


def explain(model: str) -> list[tuple[str, str, str]]:
    """(op, kernel, why) for each kind of op in the model's plan. Loads the model."""
    from pelton.api.explain import explain_model  # noqa: PLC0415  pulls the execution plane in

    return list(explain_model(model))
