"""Follows the data of checkpoint tensors into the parameters of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .record import Recorder

Span = tuple[int, int]


class Dataflow(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Sees every torch operation of the loader, and so every way in which it can write.

    A parameter's ``_version`` does not move when a loader writes to ``param.data``, and equal
    contents before and after prove nothing: a norm's weights are ones in both. Here each operation
    is looked at instead: memory written to or returned by it holds data of the checkpoint tensors
    whose memory it read. A fused parameter made of two concatenated tensors is traced to both.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._recorder = recorder
        self._parameters = {name: _span(tensor) for name, tensor in parameters.items()}
        self._origins: list[tuple[Span, frozenset[str]]] = []
        self._held: str | None = None
        self.into: dict[str, set[str]] = {}
        """Parameters that each tensor's data reached."""
        self.written: dict[str, int] = {}
        """Elements of each parameter that were written from the checkpoint."""

    def hold(self, name: str, tensor: torch.Tensor) -> None:
        """Note that the loader works on this tensor from now on."""
        self._held = name
        self._assign(tensor, frozenset([name]))

    def release(self) -> None:
        """Note that the loader has no tensor in hand any more."""
        self._held = None

    def origins(self, tensor: torch.Tensor) -> frozenset[str]:
        """Names of the checkpoint tensors whose data this tensor holds."""
        span = _span(tensor)
        return frozenset().union(*(names for at, names in self._origins if _overlap(at, span)))

    def follow_replaced(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Take in parameters that were exchanged for other tensors instead of written to."""
        for name, tensor in parameters.items():
            if self._parameters.get(name) != _span(tensor):
                self._mark(name, self.origins(tensor), tensor.numel())

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the operation, then note where the data went."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        with self._recorder.guard("dataflow"):
            schema = func._schema  # noqa: SLF001 - an operation shows its schema nowhere else
            self._follow(schema, args, kwargs, result)
        return result

    def _follow(
        self, schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        written: list[torch.Tensor] = []
        read: list[torch.Tensor] = []
        for position, argument in enumerate(schema.arguments):
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            writes = argument.alias_info is not None and argument.alias_info.is_write
            (written if writes else read).extend(_tensors(value))
        names: frozenset[str] = frozenset().union(*(self.origins(tensor) for tensor in read))
        for target in written:
            self._write(target, names)
        fresh = [returned.alias_info is None for returned in schema.returns]
        values = result if isinstance(result, tuple) else (result,)
        for is_fresh, value in zip(fresh, values, strict=False):
            if is_fresh:
                for tensor in _tensors(value):
                    self._assign(tensor, names)

    def _write(self, target: torch.Tensor, names: frozenset[str]) -> None:
        span = _span(target)
        for name, at in self._parameters.items():
            if _overlap(at, span):
                # A scalar goes through a Python number, which carries no trace of its origin.
                held = frozenset([self._held] if self._held is not None else [])
                self._mark(name, names or held, target.numel())
                return
        if names:
            self._origins.append((span, names))

    def _mark(self, parameter: str, names: frozenset[str], elements: int) -> None:
        for name in names:
            self.into.setdefault(name, set()).add(parameter)
        if names:
            self.written[parameter] = self.written.get(parameter, 0) + elements

    def _assign(self, tensor: torch.Tensor, names: frozenset[str]) -> None:
        # What lay at a reused address before is gone.
        span = _span(tensor)
        self._origins = [(at, old) for at, old in self._origins if not _overlap(at, span)]
        if names:
            self._origins.append((span, names))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _span(tensor: torch.Tensor) -> Span:
    """Addresses [first, last + 1) that the tensor's elements lie in; empty where it has none."""
    try:
        start = tensor.data_ptr()
    except RuntimeError:
        return (0, 0)
    if start == 0 or tensor.numel() == 0:
        return (0, 0)
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps)
    return (start, start + (last + 1) * tensor.element_size())


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
