"""What SGLang meets where this package has no kernel, or another one than it thinks."""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def sglang_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", {"sglang": "9.8.7"}.__getitem__)


def test_missing_kernel_is_imported_and_fails_when_called(kernels: Any) -> None:
    function = kernels.moe_fused_gate
    assert function.__name__ == "moe_fused_gate"
    with pytest.raises(NotImplementedError, match=r"sgl_kernel\.moe_fused_gate .*SGLang 9\.8\.7"):
        function(torch.zeros(1), topk=2)


def test_missing_dunder_names_stay_missing(kernels: Any) -> None:
    with pytest.raises(AttributeError):
        _ = kernels.__wrapped__


def test_missing_module_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="kvcacheio"):
        importlib.import_module("eagle3_cpu_kernels.kvcacheio")


@pytest.mark.parametrize("arguments", [(), (1, 2, 3, 4, 5)])
def test_call_that_does_not_fit_names_kernel_and_version(
    kernels: Any, arguments: tuple[int, ...]
) -> None:
    with pytest.raises(TypeError, match=r"fill_bonus_tokens_cpu .*SGLang 9\.8\.7"):
        kernels.fill_bonus_tokens_cpu(*arguments)


def test_torch_op_that_does_not_fit_names_kernel_and_version(kernels: Any) -> None:
    assert torch.ops.sgl_kernel.extend_attention_cpu is kernels.extend_attention_cpu
    with pytest.raises(TypeError, match=r"decode_attention_cpu .*SGLang 9\.8\.7"):
        torch.ops.sgl_kernel.decode_attention_cpu(torch.zeros(1))


def test_type_error_of_a_fitting_call_stays_itself(kernels: Any) -> None:
    with pytest.raises(TypeError, match="NoneType") as raised:
        kernels.fill_bonus_tokens_cpu(None, None, None, 1)
    assert "9.8.7" not in str(raised.value)


def test_unknown_version_is_said(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(NotImplementedError, match="version unknown"):
        kernels.silu_and_mul()


def test_sglang_takes_the_machine_for_one_without_amx(kernels: Any) -> None:
    assert kernels.extend_attention_cpu
    assert not hasattr(torch.ops.sgl_kernel, "convert_weight_packed")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device to wait for")
def test_synchronize_without_a_device_does_nothing(kernels: Any) -> None:
    assert kernels.ignore_synchronize
    torch.cuda.synchronize()
