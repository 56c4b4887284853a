"""A spec to vary, and a value for each field that the seed does not have or does not name."""

from rocke_cupy import AttentionDenseSpec

NEW_FIELDS = dict(
    causal_alignment="bottom_right", window_right=0, key_lengths=True, float32_out=True,
    num_splits=2, pack_gqa=True, work_order="xcd", wide_kv=True, waves_per_eu=1,
    streaming=True, block_m=128, scaled_query=True, packed_softmax=True, raised_priority=True,
)  # fmt: skip


def spec(**changes):
    fields = dict(
        batch=2, seqlen_q=512, seqlen_kv=512, num_query_heads=8, num_kv_heads=2, head_size=128
    )
    return AttentionDenseSpec(**{**fields, **changes})
