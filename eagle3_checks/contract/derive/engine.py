"""What the serving side of a release does around the model: ids, context, flags, endpoints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from eagle3_checks.contract.derive.evaluate import SETTER
from eagle3_checks.contract.derive.metrics import meta_info
from eagle3_checks.contract.derive.release import RefusedError
from eagle3_checks.contract.derive.source import Sources, walk

SRT = "sglang/srt"
EXECUTOR = f"{SRT}/model_executor"
RUNNER = f"{EXECUTOR}/model_runner.py"
GRAPHS = f"{EXECUTOR}/cuda_graph_runner.py"
ENDPOINTS = (
    "/get_server_info",
    "/server_info",
    "/get_model_info",
    "/model_info",
    "/health",
    "/health_generate",
    "/flush_cache",
)
"""Those that the suite may use."""
_IDS = "eagle_config['eagle_aux_hidden_state_layer_ids']"
_USE = "eagle_config.get('use_aux_hidden_state', True)"
_LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def engine(sources: Sources) -> dict[str, Any]:
    """Return all facts of the serving side."""
    flags = _flags(sources)
    return {
        **_aux_ids(sources),
        "context_beyond_draft": _context(sources),
        **meta_info(sources),
        "endpoints": _endpoints(sources),
        "plugin_framework": _plugins(sources),
        "forward_hooks": "forward_hooks" in flags,
        "return_aux_hidden_states": "enable_return_aux_hidden_states" in flags,
        "cpu_eagle": _cpu_eagle(sources),
        "requires": sources.release.pins(),
    }


def _aux_ids(sources: Sources) -> dict[str, bool]:
    """Follow the ids of the drafter's config to the target, and see whether graphs keep them."""
    calls = list(_setter_calls(sources))
    if not calls:
        raise RefusedError(f"nothing calls {SETTER}")
    given = [call for _, _, call in calls if call.args or call.keywords]
    texts = [
        ast.unparse(sources.module(p).tree)
        for p in sources.release.below(EXECUTOR)
        if "eagle_config" in sources.release.text(p)
    ]
    reads = any(_IDS in text for text in texts)
    if reads != bool(given):
        raise RefusedError(f"whether {_IDS} reaches {SETTER} is not clear")
    return {
        "reads_aux_ids": reads,
        "reads_use_aux": any(_USE in text for text in texts),
        "graphs_lose_ids": reads and _graphs_lose_ids(calls),
    }


_Call = tuple[str, ast.FunctionDef, ast.Call]


def _setter_calls(sources: Sources) -> Iterator[_Call]:
    """Yield the calls of the setter in the executor, with their file and function."""
    for path in sources.release.below(EXECUTOR):
        if SETTER not in sources.release.text(path):
            continue
        for function in walk(sources.module(path).tree, ast.FunctionDef):
            for call in walk(function, ast.Call):
                if isinstance(call.func, ast.Attribute) and call.func.attr == SETTER:
                    yield path, function, call


def _graphs_lose_ids(calls: list[_Call]) -> bool:
    """Whether CUDA graphs of the target are captured with the default ids, whatever is stated.

    So it is where the graph runner calls the setter without ids, and the ids are set only after
    the graphs were captured: what runs without a graph then goes by them, verification does not.
    """
    bare = [(path, function) for path, function, call in calls if not call.args]
    if not bare:
        return False
    if any(path != GRAPHS and function.name != "_dummy_run" for path, function in bare):
        raise RefusedError(f"{SETTER} is called without ids in an unknown place: {bare[0][0]}")
    if not any(path == GRAPHS for path, _ in bare):
        raise RefusedError(f"{SETTER} is called without ids outside of {GRAPHS} alone")
    [(_, function, given)] = [c for c in calls if c[2].args]
    captured = [
        call.lineno
        for call in walk(function, ast.Call)
        if ast.unparse(call.func) in {"self.init_cuda_graphs", "self.init_device_graphs"}
    ]
    if not captured or max(captured) > given.lineno:
        raise RefusedError(f"graphs are not captured before {SETTER} is called, {RUNNER}")
    return True


def _context(sources: Sources) -> str:
    """Say what a context beyond the drafter's positions leads to."""
    path = f"{SRT}/configs/model_config.py"
    test = "context_length > derived_context_len"
    outer = [
        node for node in walk(sources.module(path).tree, ast.If) if ast.unparse(node.test) == test
    ]
    if len(outer) != 1 or not (inner := [n for n in outer[0].body if isinstance(n, ast.If)]):
        raise RefusedError(f"there is no {test} that is known, {path}")
    if not any(isinstance(n, ast.Raise) for n in inner[0].orelse):
        raise RefusedError(f"a context that is too long raises nothing, {path}:{inner[0].lineno}")
    condition = ast.unparse(inner[0].test)
    if condition == f"get_bool_env_var('{_LONGER}', default='True')":
        return "warned"
    if condition == f"get_bool_env_var('{_LONGER}') or is_in_ci()":
        return "refused"
    default = f"{_LONGER} = EnvBool(False)"
    if condition == f"envs.{_LONGER}.get() or is_in_ci()" and default in sources.release.text(
        f"{SRT}/environ.py"
    ):
        return "refused"
    raise RefusedError(f"{condition} is not understood, {path}:{inner[0].lineno}")


def _endpoints(sources: Sources) -> list[str]:
    tree = sources.module(f"{SRT}/entrypoints/http_server.py").tree
    found = {
        call.args[0].value
        for function in walk(tree, ast.AsyncFunctionDef)
        for call in function.decorator_list
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).startswith("app.")
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    return [name for name in ENDPOINTS if name in found]


def _plugins(sources: Sources) -> bool:
    path = f"{SRT}/plugins/__init__.py"
    return path in sources.release.paths and '"sglang.srt.plugins"' in sources.release.text(path)


def _flags(sources: Sources) -> set[str]:
    """Return the names of all server arguments: annotated fields of the argument classes."""
    paths = [f"{SRT}/server_args.py", *sources.release.below(f"{SRT}/arg_groups")]
    return {
        field.target.id
        for path in paths
        for owner in walk(sources.module(path).tree, ast.ClassDef)
        for field in owner.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _cpu_eagle(sources: Sources) -> bool:
    """Whether the CPU's attention backend can draft several steps and verify them."""
    path = f"{SRT}/layers/attention/intel_amx_backend.py"
    if path not in sources.release.paths:
        return False
    module = sources.module(path)
    drafts = "IntelAMXMultiStepDraftBackend" in module.classes
    verifies = "is_target_verify()" in ast.unparse(module.tree)
    if drafts != verifies:
        raise RefusedError(f"the CPU's backend drafts or verifies, but not both, {path}")
    return drafts
