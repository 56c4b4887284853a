"""The text that hipRTC gets: self-contained, and different whenever anything in it matters."""

import dataclasses
import re

import pytest
from helpers.specs import NEW_FIELDS, spec

from rocke_cupy import build_attention_dense
from rocke_cupy.kernels import source
from rocke_cupy.kernels.variant import KernelVariant

SHAPE_FIELDS = dict(batch=3, seqlen_q=1024, seqlen_kv=1024, num_query_heads=16, num_kv_heads=4)


def test_no_shape_is_in_it():
    assert build_attention_dense(spec(**SHAPE_FIELDS)) == build_attention_dense(spec())


# Fields that a launch passes as an argument, or that only say what the caller may give.
RUN_TIME = {*SHAPE_FIELDS, "ragged", "num_persistent", "key_lengths", "causal_alignment"}

CHANGED = {
    "head_size": dict(head_size=64), "causal": dict(causal=False), "dtype": dict(dtype="fp16"),
    "sliding_window": dict(sliding_window=64), "varlen": dict(varlen=True),
    "block_n": dict(block_n=128), "waves_per_eu": dict(waves_per_eu=1),
    "persistent": dict(persistent=True), "lazy_rescale": dict(lazy_rescale=False),
    "interleave": dict(persistent=True, interleave=True),
    "persist_decode": dict(persistent=True, persist_decode="hkv_major"),
    "window_right": dict(causal=False, window_right=3),
    **{
        field: {field: value}
        for field, value in NEW_FIELDS.items()
        if field not in RUN_TIME | {"window_right", "waves_per_eu"}
    },
}  # fmt: skip


def test_every_field_is_either_baked_in_or_an_argument():
    fields = {f.name for f in dataclasses.fields(spec())}
    assert fields == RUN_TIME | set(CHANGED)


@pytest.mark.parametrize("field", CHANGED)
def test_a_baked_field_changes_name_and_text(field):
    before = dict(CHANGED[field])
    before.pop(field, None)
    changed = build_attention_dense(spec(**CHANGED[field]))
    plain = build_attention_dense(spec(**before))
    assert changed.name != plain.name
    assert changed.code != plain.code


@pytest.mark.parametrize("widths", [(1, 2), (64, 4096)])
def test_widths_of_a_window_are_arguments(widths):
    codes = {build_attention_dense(spec(sliding_window=w)) for w in widths}
    assert len(codes) == 1


def test_names_of_variants_are_their_fields():
    fields = dataclasses.fields(KernelVariant)
    base = KernelVariant.of(spec())
    for field in fields:
        value = getattr(base, field.name)
        other = not value if isinstance(value, bool) else value + 1 if value < 4 else value - 1
        changed = dataclasses.replace(base, **{field.name: other})
        assert changed.entry != base.entry, field.name
    assert re.fullmatch(r"\w+", base.entry)


def test_it_includes_nothing_and_starts_with_the_digest():
    kernel = build_attention_dense(spec())
    assert "#include" not in kernel.code
    assert kernel.code.startswith(f"// rocke_cupy {kernel.name} sources {source.sources_digest()}")
    assert kernel.code.rstrip().endswith(f"ROCKE_ATTENTION_FORWARD({kernel.name})")


def test_constants_are_written_as_members():
    code = build_attention_dense(spec(causal=False)).code
    assert "static constexpr int head_dim = 128;" in code
    assert "static constexpr bool right_bound = false;" in code


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small source tree in place of the real one."""
    files = {
        "attention/kernel.hip": (
            '#pragma once\n#include "parts/b.h"\n#include "parts/a.h"\nint k;\n'
        ),
        "parts/a.h": "#pragma once\nint a;\n",
        "parts/b.h": '#include "parts/a.h"\n#include "c.h"\nint b;\n',
        "parts/c.h": "int c;\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(source, "kernels_src", lambda: tmp_path)
    source.sources_digest.cache_clear()
    yield tmp_path
    source.sources_digest.cache_clear()


def unit():
    return source.translation_unit("attention/kernel.hip", "KERNEL", "entry_name", {"n": 3})


def test_each_header_is_inlined_once_in_the_order_of_inclusion(tree):
    text = unit()
    assert re.findall(r"^int (\w);", text, re.M) == ["a", "c", "b", "k"]
    assert "#pragma once" not in text


def test_line_markers_name_the_file_and_line_of_each_declaration(tree):
    where = {}
    name, number = "", 0
    for line in unit().splitlines():
        number += 1
        if marker := re.match(r'#line (\d+) "(.*)"', line):
            number, name = int(marker[1]) - 1, marker[2].removeprefix("kernels_src/")
        elif declared := re.match(r"int (\w);", line):
            where[declared[1]] = (name, number)
    assert where == {
        "a": ("parts/a.h", 2), "b": ("parts/b.h", 3), "c": ("parts/c.h", 1),
        "k": ("attention/kernel.hip", 4),
    }  # fmt: skip


def test_a_header_that_is_missing_is_named_with_its_includer(tree):
    (tree / "parts/b.h").write_text('\n#include "parts/none.h"\n')
    with pytest.raises(FileNotFoundError, match=r'b\.h:2: #include "parts/none\.h" names no file'):
        unit()


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "parts/c.h").write_text("int d;\n"),
        lambda tree: (tree / "parts/c.h").rename(tree / "parts/d.h"),
        lambda tree: (tree / "parts/unused.h").write_text(""),
    ],
    ids=["content", "name", "new file"],
)
def test_any_change_of_the_tree_changes_the_digest(tree, change):
    before = source.sources_digest()
    change(tree)
    source.sources_digest.cache_clear()
    assert source.sources_digest() != before


def test_notes_beside_the_sources_do_not_change_the_digest(tree):
    before = source.sources_digest()
    (tree / "README.md").write_text("words")
    source.sources_digest.cache_clear()
    assert source.sources_digest() == before
