"""What every kernel of this package shares: an error that says which SGLang called it how."""

from __future__ import annotations

import functools
import inspect
from importlib import metadata
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def sglang_version() -> str:
    """Version of the SGLang in this environment, for error messages."""
    try:
        return metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return "(version unknown)"


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Name the kernel and the SGLang version when a call does not fit the kernel's signature.

    Argument orders move between SGLang releases. A call that fits costs nothing extra: the
    signature is bound only once a TypeError was raised.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            try:
                inspect.signature(function).bind(*args, **kwargs)
            except TypeError as misfit:
                raise TypeError(
                    f"sgl_kernel.{function.__name__} on the CPU engine does not fit the call that "
                    f"SGLang {sglang_version()} makes: {misfit}"
                ) from None
            raise

    return call


def torch_op(function: Callable[P, R]) -> Callable[P, R]:
    """Make a kernel callable as ``torch.ops.sgl_kernel.<name>`` too.

    Set as an attribute, not through ``torch.library``: the dispatcher's error for a call that does
    not fit would not name the SGLang version.
    """
    setattr(torch.ops.sgl_kernel, function.__name__, function)
    return function


def unsupported(name: str, what: str) -> NotImplementedError:
    """Error for an argument value that a kernel of this package does not serve."""
    return NotImplementedError(
        f"sgl_kernel.{name} on the CPU engine has no {what} (asked for by SGLang "
        f"{sglang_version()})"
    )
