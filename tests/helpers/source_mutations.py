"""Faults planted in the HIP sources: fences taken away, addresses and bounds off by one row.

Each text stands exactly once in the source of the variants that it applies to;
tests/emulator/test_mutations.py sees to it that none is out of date.
"""

from dataclasses import dataclass

from rocke_cupy.emulator import hiprtc

FENCE, ADDRESS, BOUND, WAIT = SOURCE_KINDS = "fence", "address", "bound", "wait"


@dataclass(frozen=True)
class SourceMutation:
    """A piece of source text and what takes its place.

    ``needs`` is text that the variant's constants must have for the fault to be in its code.
    """

    kind: str
    title: str
    old: str
    new: str
    needs: str = ""

    def applies(self, source):
        """Tell whether a variant has the code that the fault is in."""
        return self.needs in source and self.old in source

    def applied(self, source):
        """Return the broken source."""
        if (found := source.count(self.old)) != 1:
            raise ValueError(f"{self.title}: its text stands {found} times in the source, not once")
        return source.replace(self.old, self.new)

    def compiled(self, source, options, rocm="7.0"):
        """Return the broken code object."""
        return hiprtc.compile(self.applied(source), options, rocm=rocm).code


_BARRIER = """  schedule_fence();
  asm volatile("" ::: "memory");
  __builtin_amdgcn_s_barrier();
  asm volatile("" ::: "memory");
  schedule_fence();
"""
_MEMORY = '  asm volatile("" ::: "memory");\n'
_SCHEDULE = "  schedule_fence();\n"
_BUILTIN = "  __builtin_amdgcn_s_barrier();\n"
_READ_V = """
    kv.template read_v<slot + T::ring - 1, 0, early>();
    modify_and_mask<slot>(key);
    softmax.take_in(o, scores[1 - parity], scores[parity]);
    kv.template read_v<slot + T::ring - 1, early, Kv::v_fragments>();
    kv.template wait<Kv::newest, Kv::v_fragments>();
    barrier();
"""
_READ_V_LATE = """
    modify_and_mask<slot>(key);
    softmax.take_in(o, scores[1 - parity], scores[parity]);
    kv.template wait_requests<Kv::newest>();
    barrier();
    kv.template read_v<slot + T::ring - 1, 0, Kv::v_fragments>();
    kv.template wait<Kv::newest, Kv::v_fragments>();
"""
_RIGHT, _LEFT = "right_bound = true", "left_bound = true"
_ALONE = "pack_gqa = false"  # whose rows go through LDS


def _fence(title, *lines):
    return SourceMutation(FENCE, title, _BARRIER, "".join(lines))


SOURCE_MUTATIONS = (
    _fence("memory fence before the barrier", _SCHEDULE, _BUILTIN, _MEMORY, _SCHEDULE),
    _fence("memory fence after the barrier", _SCHEDULE, _MEMORY, _BUILTIN, _SCHEDULE),
    _fence("scheduling fence before the barrier", _MEMORY, _BUILTIN, _MEMORY, _SCHEDULE),
    _fence("scheduling fence after the barrier", _SCHEDULE, _MEMORY, _BUILTIN, _MEMORY),
    SourceMutation(
        FENCE,
        "fragments not pinned below their wait",
        "fragment[i] = opaque(fragment[i]);",
        "",
    ),
    # What a compiler may do without the memory fence, and LLVM has done: see test_mutations.py.
    SourceMutation(FENCE, "reads of V sunk past the barrier", _READ_V, _READ_V_LATE),
    SourceMutation(
        WAIT,
        "one request more under way at the end of a load phase",
        "newest = 2 * (ring - 1);",
        "newest = 2 * (ring - 1) + 1;",
    ),
    SourceMutation(
        ADDRESS,
        "K read one key further",
        "const uint32 key = lane % 32;",
        "const uint32 key = (lane + 1) % 32;",
    ),
    SourceMutation(
        ADDRESS,
        "V read one key further",
        "const uint32 key = 4 * (lane / 32) + lane % 16 / 4;",
        "const uint32 key = 4 * (lane / 32) + lane % 16 / 4 + 1;",
    ),
    SourceMutation(
        ADDRESS,
        "second K block one row further",
        "return n * (32 / lines_per_group) * key_bytes_in_line +",
        "return (n * (32 / lines_per_group) + n) * key_bytes_in_line +",
    ),
    SourceMutation(
        ADDRESS,
        "second V band one row further",
        "(2 * kk + band) * key_bytes_in_line;",
        "(2 * kk + 2 * band) * key_bytes_in_line;",
    ),
    SourceMutation(
        ADDRESS,
        "LDS DMA into the line of the next wave",
        "- step) + wave * line_bytes,",
        "- step) + (wave + 1) * line_bytes,",
    ),
    SourceMutation(
        ADDRESS,
        "LDS DMA one row further in memory",
        "const int row = lane / 8 * lines_per_group + wave,",
        "const int row = lane / 8 * lines_per_group + wave + 1,",
    ),
    SourceMutation(
        ADDRESS,
        "K requested into the slot after",
        "k_ring<ring * T::k_slot_bytes>() + slot % ring *",
        "k_ring<ring * T::k_slot_bytes>() + (slot + 1) % ring *",
    ),
    SourceMutation(
        ADDRESS,
        "V requested into the slot after",
        "v_ring<ring * T::v_slot_bytes>() + slot % ring *",
        "v_ring<ring * T::v_slot_bytes>() + (slot + 1) % ring *",
    ),
    SourceMutation(
        ADDRESS,
        "Q read one row further",
        "+ row_lane_offset(this->lane);",
        "+ row_lane_offset(this->lane + 1);",
        _ALONE,
    ),
    SourceMutation(
        ADDRESS,
        "output written one row further",
        "area + row_lane_offset(lane) + half",
        "area + row_lane_offset(lane + 1) + half",
        _ALONE,
    ),
    SourceMutation(
        BOUND,
        "buffer of rows one too long",
        "const int last = min(rows, rows_per_wave) - 1;",
        "const int last = min(rows, rows_per_wave);",
        _ALONE,
    ),
    SourceMutation(
        BOUND,
        "buffer of rows one too short",
        "const int last = min(rows, rows_per_wave) - 1;",
        "const int last = min(rows, rows_per_wave) - 2;",
        _ALONE,
    ),
    SourceMutation(
        BOUND,
        "buffer one row too long",
        "(s.seqlen_kv - 1) * row_bytes",
        "s.seqlen_kv * row_bytes",
    ),
    SourceMutation(
        BOUND,
        "buffer one row too short",
        "(s.seqlen_kv - 1) * row_bytes",
        "(s.seqlen_kv - 2) * row_bytes",
    ),
    SourceMutation(
        BOUND,
        "one key too many",
        "KeyBounds keys{0, s.seqlen_kv - 1};",
        "KeyBounds keys{0, s.seqlen_kv};",
    ),
    SourceMutation(
        BOUND,
        "one key too few",
        "KeyBounds keys{0, s.seqlen_kv - 1};",
        "KeyBounds keys{0, s.seqlen_kv - 2};",
    ),
    SourceMutation(
        BOUND,
        "diagonal one key further",
        "token + s.diagonal + shape.window_right);",
        "token + s.diagonal + shape.window_right + 1);",
        _RIGHT,
    ),
    SourceMutation(
        BOUND,
        "window one key wider",
        "token + s.diagonal - shape.window_left);",
        "token + s.diagonal - shape.window_left - 1);",
        _LEFT,
    ),
    SourceMutation(
        BOUND,
        "one query row too many",
        "row < count()};",
        "row <= count()};",
    ),
    SourceMutation(
        BOUND,
        "one query row too few",
        "row < count()};",
        "row + 1 < count()};",
    ),
    SourceMutation(
        BOUND,
        "mask one key too strict",
        "return key > below;",
        "return key >= below;",
    ),
    SourceMutation(
        BOUND,
        "mask one key too strict before the window",
        "return key < above;",
        "return key <= above;",
        _LEFT,
    ),
)
