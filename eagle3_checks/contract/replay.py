"""What loading does with each tensor: SGLang's ``load_weights``, on names and shapes alone.

Follows sglang/srt/models/llama_eagle3.py and kimi_k25_eagle3.py, and the weight loaders of
sglang/srt/layers/linear.py as they run on a GPU at TP 1, unquantised. One difference on the CPU:
q, k and v weights with too few rows are padded there, where a GPU server stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from eagle3_checks.contract.dims import Dims, dims_of
from eagle3_checks.contract.names import Place, llama_place, mla_place, old_llama_place
from eagle3_checks.contract.parameters import Kind, Parameter, build_parameters
from eagle3_checks.contract.version import LLAMA, Contract
from eagle3_checks.facts import DraftConfig, Manifest, Shape, TensorInfo


class Fate(StrEnum):
    """What became of a tensor."""

    LOADED = "loaded"
    CUT = "cut"
    """Loaded, but the surplus was cut off in silence."""
    PADDED = "padded"
    """Loaded, and filled up with zeros in silence."""
    TOKEN_MAP = "token map"
    """Became the map from draft ids to target ids (d2t)."""
    IGNORED = "ignored"
    """Not needed by SGLang, by design (t2d)."""
    DROPPED = "dropped"
    FATAL = "fatal"
    """The server stops while loading."""


class State(StrEnum):
    """What a parameter holds once the drafter serves."""

    FILLED = "filled"
    PARTLY = "partly filled"
    INITIAL = "left at its initial value"
    TARGET = "replaced by the target's"
    REFUSED = "refused"
    """A tensor came whose shape stops the server."""


@dataclass(frozen=True, kw_only=True)
class TensorPlan:
    """What becomes of one tensor."""

    name: str
    seen: Shape
    fate: Fate
    parameter: str | None = None
    shard: str | None = None
    wanted: Shape | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ParameterPlan:
    """What fills one parameter."""

    parameter: Parameter
    state: State
    by: tuple[str, ...] = ()
    """Tensors that reached it, also where the target's replaces it afterwards."""
    missing: tuple[str, ...] = ()
    """Shards that no tensor reached."""

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """The whole of one load."""

    dims: Dims
    tensors: tuple[TensorPlan, ...]
    parameters: tuple[ParameterPlan, ...]

    def with_fate(self, *fates: Fate) -> tuple[TensorPlan, ...]:
        """Return the tensors that ended so."""
        return tuple(t for t in self.tensors if t.fate in fates)

    @property
    def unfilled(self) -> tuple[ParameterPlan, ...]:
        """Parameters that the forward pass reads and no tensor filled, or not wholly."""
        states = (State.INITIAL, State.PARTLY)
        return tuple(p for p in self.parameters if p.state in states and p.parameter.used)

    @property
    def token_map(self) -> str | None:
        """Name of the tensor that became the token map."""
        found = self.with_fate(Fate.TOKEN_MAP)
        return found[-1].name if found else None


def replay(manifest: Manifest, draft: DraftConfig, contract: Contract) -> LoadPlan:
    """Replay the loading; ContractError where the drafter cannot be built from its config."""
    dims = dims_of(draft, contract)
    parameters = {p.name: p for p in build_parameters(draft, contract)}
    locate = _locator(dims, contract)
    tensors: list[TensorPlan] = []
    for info in manifest.tensors.values():
        place = locate(info.name, parameters)
        tensors.append(_load(info, place, parameters, contract))
    if dims.drafter_class != LLAMA:
        tensors = list(_without_halves(tensors))
    reached: dict[str | None, list[TensorPlan]] = {}
    for tensor in tensors:
        reached.setdefault(tensor.parameter, []).append(tensor)
    plans = tuple(_filled(p, dims, reached.get(p.name, [])) for p in parameters.values())
    return LoadPlan(dims=dims, tensors=tuple(tensors), parameters=plans)


def _locator(dims: Dims, contract: Contract) -> Callable[[str, Mapping[str, Parameter]], Place]:
    if dims.drafter_class != LLAMA:
        return mla_place
    if contract.llama.unknown_shard == "key-error":
        return lambda name, known: old_llama_place(name, known, tied=dims.tied)
    renames = contract.llama.renames
    return lambda name, known: llama_place(name, known, renames)


def _load(
    info: TensorInfo, place: Place, parameters: Mapping[str, Parameter], contract: Contract
) -> TensorPlan:
    if place.special:
        fate = Fate.TOKEN_MAP if place.special == "d2t" else Fate.IGNORED
    elif place.stops:
        fate = Fate.FATAL
    else:
        fate = Fate.DROPPED
    plan = TensorPlan(name=info.name, seen=info.shape, fate=fate, reason=place.reason)
    if place.parameter is None:
        return plan
    parameter = parameters[place.parameter]
    return replace(
        plan,
        fate=_fit(parameter, place.shard, info.shape, contract),
        parameter=parameter.name,
        shard=place.shard,
        wanted=parameter.wanted(place.shard),
    )


def _fit(parameter: Parameter, shard: str | None, seen: Shape, contract: Contract) -> Fate:
    """Say how a weight loader takes a tensor of this shape."""
    wanted = parameter.wanted(shard)
    if seen == wanted or (set(seen) <= {1} and set(wanted) == {1}):
        return Fate.LOADED
    axis = {Kind.QKV: 0, Kind.GATE_UP: 0, Kind.ROWS: 0, Kind.COLUMNS: 1}.get(parameter.kind)
    if axis is None or len(seen) != len(wanted):
        return Fate.FATAL
    if any(s != w for i, (s, w) in enumerate(zip(seen, wanted, strict=True)) if i != axis):
        return Fate.FATAL
    if seen[axis] > wanted[axis]:
        return Fate.CUT
    pads = parameter.kind is Kind.COLUMNS or (parameter.kind is Kind.GATE_UP and shard is not None)
    return Fate.PADDED if pads and contract.llama.pads_short_shards else Fate.FATAL


def _without_halves(tensors: list[TensorPlan]) -> Iterator[TensorPlan]:
    """Drop q_a or kv_a projections whose other half is missing: both are written at once."""
    halves = {t.shard for t in tensors if t.shard in ("q_a", "kv_a")}
    for tensor in tensors:
        if tensor.shard in ("q_a", "kv_a") and len(halves) == 1:
            other = "kv_a_proj_with_mqa" if tensor.shard == "q_a" else "q_a_proj"
            yield TensorPlan(
                name=tensor.name,
                seen=tensor.seen,
                fate=Fate.DROPPED,
                reason=f"it is kept until {other} comes, which the checkpoint does not have",
            )
        else:
            yield tensor


def _filled(parameter: Parameter, dims: Dims, offered: list[TensorPlan]) -> ParameterPlan:
    reached = [t for t in offered if t.fate is not Fate.FATAL]
    by = tuple(t.name for t in reached)
    if _replaced(parameter, dims):
        return ParameterPlan(parameter=parameter, state=State.TARGET, by=by)
    if len(reached) < len(offered):
        return ParameterPlan(parameter=parameter, state=State.REFUSED, by=by)
    if not reached:
        missing = tuple(parameter.shards)
        return ParameterPlan(parameter=parameter, state=State.INITIAL, missing=missing)
    if any(t.shard is None for t in reached):
        return ParameterPlan(parameter=parameter, state=State.FILLED, by=by)
    missing = tuple(s for s in parameter.shards if s not in {t.shard for t in reached})
    state = State.PARTLY if missing else State.FILLED
    return ParameterPlan(parameter=parameter, state=state, by=by, missing=missing)


def _replaced(parameter: Parameter, dims: Dims) -> bool:
    """Whether ``set_embed`` or ``set_embed_and_head`` puts the target's in its place."""
    if parameter.name == "model.embed_tokens.weight":
        return dims.shares_embedding
    return parameter.name == "lm_head.weight" and dims.borrowed
