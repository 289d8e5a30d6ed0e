"""Stand-ins for the kernels that SGLang imports on a CPU and never calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from .signature import sglang_version

if TYPE_CHECKING:
    from collections.abc import Callable


def __getattr__(name: str) -> Callable[..., NoReturn]:
    """Return a function that fails with the kernel's name; dunder names stay missing."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing_kernel(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"sgl_kernel.{name} was called by SGLang {sglang_version()}, and the CPU engine has no "
            "such kernel"
        )

    missing_kernel.__name__ = missing_kernel.__qualname__ = name
    return missing_kernel
