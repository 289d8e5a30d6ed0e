"""The kernels that SGLang's CPU engine calls while it serves EAGLE-3, in plain torch.

No CPU build of ``sgl_kernel`` is published, and the CUDA build does not import without a driver.
This folder's parent goes on the PYTHONPATH of the server process alone; there this package answers
to SGLang's ``import sgl_kernel``. Names that are imported but never called need no kernel: see
``missing``. ``torch.ops.sgl_kernel.convert_weight_packed`` is left undefined on purpose, since
SGLang reads its absence as "no AMX" and keeps every other layer on its native torch path.
"""

from __future__ import annotations

from .attention import decode_attention_cpu, extend_attention_cpu
from .missing import __getattr__
from .no_device import ignore_synchronize
from .slots import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
)
from .tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

ignore_synchronize()

__all__ = [
    "__getattr__",
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "decode_attention_cpu",
    "extend_attention_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "verify_tree_greedy_cpu",
]
