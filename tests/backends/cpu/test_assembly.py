"""The compiler keeps the hot kernels' sums in registers, and no vector code can end up where it does not belong.

tests/golden/spills.txt records the kernels that put registers aside, with how many; none may become worse. The numbers
hold for the compiler that the file names. `pytest --update-golden` writes it.
"""

import shutil

import pytest
from tests.backends.cpu.assembly import compiler_of, count_spills, find_objects, spills_of, weak_functions
from tests.golden_file import Golden

pytestmark = pytest.mark.cpu


@pytest.fixture(scope="module")
def objects():
    missing = [name for name in ("objdump", "nm", "strings") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} of binutils is not installed")
    found = find_objects()
    if not found:
        pytest.skip("the module was not built here: no object files under build/")
    return found


def test_hot_kernels_spill_no_more_than_recorded(objects, golden: Golden) -> None:
    compiler = compiler_of(objects[0])
    counts = {name: count for path in objects for name, count in spills_of(path).items()}
    assert len(counts) > 100, "the kernels are no longer called what HOT says"
    if golden.is_updating:
        rows = sorted((name, count) for name, count in counts.items() if count > 0)
        golden.check("spills.txt", "\n".join([compiler, *(f"{count:4d} {name}" for name, count in rows)]))
    recorded_by, *lines = (golden.folder / "spills.txt").read_text().splitlines()
    if compiler != recorded_by:
        pytest.skip(f"the record was made with {recorded_by}, the kernels with {compiler}")
    recorded = {name: int(count) for count, _, name in (line.strip().partition(" ") for line in lines)}
    worse = {name: (recorded.get(name, 0), count) for name, count in counts.items() if count > recorded.get(name, 0)}
    assert not worse, "registers put aside, (recorded, found); pytest --update-golden if it cannot be helped"


def test_the_linker_merges_no_function_of_an_instruction_set(objects) -> None:
    """A machine without AVX-512 could be handed its code for a function in a shared header."""
    merged = {path.name: found for path in objects if (found := weak_functions(path))}
    assert not merged, "mark these static, in shared headers, or inline them by force"


def test_counting() -> None:
    lines = [
        "0000000000000000 <void pelton::(anonymous namespace)::multiply_wide<pelton::Layout{5, (pelton::ScaleForm)0,"
        " 4}, 2>(pelton::(anonymous namespace)::Slab const&, pelton::(anonymous namespace)::RowBlock const&)>:",
        "  77:\tvmovaps %zmm7,-0x38(%rsp)",
        "  78:\tvmovdqa64 %zmm0,0x100(%rsp)",
        "  79:\tvmovups %zmm1,-0x70(%rbp)",
        "  7a:\tvmovups %zmm1,0x70(%rbp)",
        "  7b:\tvmovaps (%rsp),%zmm3",
        "  7c:\tvmovups %ymm1,(%rsp)",
        "0000000000000000 <pelton::pack()>:",
        "  77:\tvmovaps %zmm7,-0x38(%rsp)",
    ]
    assert list(count_spills(lines)) == [("multiply_wide<Layout{5, (ScaleForm)0, 4}, 2>", 4)]
