"""A model and a machine for tests of the configuration: nothing in them is probed."""

from pelton.config.hardware import Hardware
from pelton.config.model_facts import ModelFacts

GIB = 2**30

MODEL = ModelFacts(
    name="llama",
    max_position=32768,
    vocab_size=32000,
    hidden_size=1024,
    num_layers=16,
    weight_bytes=1 * GIB,
    weight_dtype="bfloat16",
    kv_bytes_per_token=32 * 1024,
)
MACHINE = Hardware(
    machine="x86_64",
    cpu_name="Example",
    num_cpus=8,
    num_cores=4,
    total_memory_bytes=16 * GIB,
    available_memory_bytes=12 * GIB,
    cpu_flags=frozenset({"avx2", "fma", "f16c"}),
)
