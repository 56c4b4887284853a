"""What holds for the compiled code of every kernel."""

from helpers import code_objects

from rocke_cupy.emulator import load
from rocke_cupy.emulator.core.numbers import SGPR


@code_objects.each
def test_nothing_is_spilled(name, compiler):
    (kernel,) = load(code_objects.compiled(name, compiler)).kernels.values()
    assert (kernel.vgpr_spills, kernel.sgpr_spills, kernel.scratch_size) == (0, 0, 0)
    assert kernel.agprs == 0


@code_objects.each
def test_scalar_loads_read_the_arguments_alone(name, compiler):
    """What a caller may change between two replays of a HIP graph goes through no scalar cache."""
    program = load(code_objects.compiled(name, compiler))
    loads = [i for i in program.instructions if i.mnemonic.startswith("s_load")]
    assert loads
    of_arguments = argument_addresses(program)
    for instruction in loads:
        base = program.records["src"][instruction.index][0]
        assert set(scalars([base])) <= of_arguments[instruction.index], instruction.text


def argument_addresses(program):
    """Return for each instruction which scalar registers then hold addresses of arguments.

    By whichever way it is reached. A kernel starts with that address in s[0:1]; the registers are
    those of copies of it and of sums with it.
    """
    (kernel,) = program.kernels.values()
    assert kernel.user_sgprs == 2, "the kernel starts with another address too"
    found, ways = {}, [(program.entry(kernel), frozenset({0, 1}))]
    while ways:
        at, held = ways.pop()
        held &= found.get(at, held)
        if found.get(at) == held:
            continue
        found[at] = held
        text, record = program.instructions[at].text, program.records[at]
        read, written = scalars(record["src"]), scalars(record["dst"])
        keeps = text.startswith(("s_mov_b", "s_add_u32", "s_addc_u32")) and held.intersection(read)
        held = held | written if keeps else held - written
        if "branch" in text:
            ways.append((int(record["target"]), held))
        if not text.startswith(("s_branch", "s_endpgm")):
            ways.append((at + 1, held))
    return found


def scalars(operands):
    """Return the scalar registers among operands."""
    return {
        int(o["index"]) + i for o in operands if o["kind"] == SGPR for i in range(int(o["width"]))
    }
