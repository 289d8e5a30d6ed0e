"""Log lines that tell why a server failed, with the likely cause and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A known kind of failure."""

    name: str
    pattern: re.Pattern[str]
    cause: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """A signature found in a log."""

    signature: Signature
    line: str
    """The log line it was found in."""

    def __str__(self) -> str:
        """Return cause, fix and evidence in one paragraph."""
        return f"{self.signature.cause}; {self.signature.fix} (log: {self.line})"


def _of(name: str, pattern: str, cause: str, fix: str) -> Signature:
    return Signature(name=name, pattern=re.compile(pattern), cause=cause, fix=fix)


SIGNATURES: tuple[Signature, ...] = (
    _of(
        "missing-cpu-kernel",
        r"NotImplementedError: sgl_kernel\.",
        "the CPU engine was asked for a kernel, or a use of one, that this suite does not provide",
        "serve this model on a GPU, or use the flags of the shipped CPU profile",
    ),
    _of(
        "cpu-kernel-call",
        r"TypeError: sgl_kernel\..* does not fit the call",
        "this SGLang release calls a CPU kernel in another way than the release it is written for",
        "serve with the release that the extra eagle3-checks[sglang] names",
    ),
    _of(
        "sgl-kernel-import",
        r"\[sgl_kernel\] CRITICAL|"
        r"(?:ImportError|ModuleNotFoundError|OSError).*(?:sgl_kernel|sgl-kernel|libcuda\.so)",
        "sgl_kernel cannot be imported: its wheels hold CUDA builds and need a driver",
        "install the sglang-kernel that matches SGLang and CUDA, or use --eagle3-device cpu",
    ),
    _of(
        "out-of-memory",
        r"CUDA out of memory|torch\.OutOfMemoryError|CUDA error: out of memory",
        "the GPU has too little memory for target, drafter, their KV caches and graph capture",
        "free the GPU (nvidia-smi), lower --mem-fraction-static or --cuda-graph-max-bs, or "
        "raise server.tp",
    ),
    _of(
        "memory-fraction",
        r"Not enough memory\. Please try to increase --mem-fraction|Memory pool size is too small",
        "nothing is left for the KV cache once target and drafter are loaded",
        "raise --mem-fraction-static, or serve on more or larger GPUs",
    ),
    _of(
        "port-in-use",
        r"address already in use|Errno 98|[Pp]ort \d* ?is (?:already in use|not available)",
        "the port was taken by another process",
        "set server.port = 0 to take a free one, or end the other server",
    ),
    _of(
        "fc-shape",
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch.*\bfc\b",
        "the drafter's fc does not fit the captured states: the number of aux states times the "
        "target's hidden size differs from fc's input width",
        "compare fc.weight and eagle_aux_hidden_state_layer_ids with the target "
        "(eagle3-checks inspect)",
    ),
    _of(
        "dtype-mismatch",
        r"expected m1 and m2 to have the same dtype|mat1 and mat2 must have the same dtype|"
        r"expected scalar type \w+ but found \w+",
        "target and drafter are served in different dtypes",
        "give --dtype, or save the drafter in the target's dtype",
    ),
    _of(
        "no-capture-hook",
        r"set_eagle3_layers_to_capture|does not support EAGLE-?3",
        "SGLang's class of the target cannot hand its hidden states to an EAGLE-3 drafter",
        "use an SGLang release whose class has set_eagle3_layers_to_capture",
    ),
    _of(
        "draft-context",
        r"Target model's context_length \(\d+\) is greater than the derived context_length",
        "the target's context is longer than the drafter's max_position_embeddings",
        "raise it in the drafter's config.json if its RoPE allows, or give --context-length",
    ),
    _of(
        "context-length",
        r"User-specified context_length \(\d+\) is greater than the derived context_length",
        "--context-length is longer than the target's own context",
        "lower --context-length in server.args",
    ),
    _of(
        "graph-capture",
        r"Capture cuda graph failed: (?!.*out of memory)",
        "a CUDA graph could not be captured",
        "update SGLang, or tell it from other faults with --cuda-graph-backend-decode=disabled",
    ),
    _of(
        "illegal-access",
        r"an illegal memory access was encountered|device-side assert triggered",
        "a kernel read or wrote where it must not, under speculation often a draft id or a cache "
        "location out of range",
        "check d2t and the vocabulary (eagle3-checks inspect), then repeat with "
        "CUDA_LAUNCH_BLOCKING=1 for the kernel's name",
    ),
    _of(
        "memory-leak",
        r"memory leak detected",
        "SGLang lost track of cache slots, as releases have done under speculation",
        "update SGLang, or try --page-size 1",
    ),
    _of(
        "watchdog-timeout",
        r"watchdog timeout \(",
        "a batch hung, and SGLang's own watchdog ended the server",
        "read the stacks that precede this line in the log; raise --watchdog-timeout only where a "
        "batch can take so long",
    ),
    _of(
        "attention-backend",
        r"(?:attention backend|attention_backend).*(?:not support|unsupported|invalid|only support)"
        r"|(?:not support|only support).*attention backend",
        "the attention backend cannot serve this speculation (topk, page size or device)",
        "choose another --attention-backend, or set speculation.topk = 1",
    ),
    _of(
        "gated-repository",
        r"GatedRepoError|Cannot access gated repo|is a gated repository|"
        r"Access to model .* is restricted",
        "the checkpoint is gated and this machine has no access to it",
        "accept its licence on the hub and set HF_TOKEN, or give a local folder",
    ),
    _of(
        "no-such-model",
        r"RepositoryNotFoundError|RevisionNotFoundError|is not a local folder and is not a valid|"
        r"HFValidationError|Can't load the configuration of|LocalEntryNotFoundError|"
        r"OfflineModeIsEnabled|does not appear to have a file named config\.json",
        "a checkpoint was not found, neither as a folder nor on the hub",
        "check target.path and drafter.path (a folder, or org/name[@revision])",
    ),
    _of(
        "unknown-flag",
        r"error: (?:unrecognized arguments|argument .*: invalid|ambiguous option)",
        "this SGLang release does not know a flag or its value",
        "check server.args and the SGLang version (eagle3-checks doctor)",
    ),
    _of(
        "not-installed",
        r"No module named ['\"]?sglang",
        "the interpreter that serves has no SGLang",
        "set server.python to one that has, or install eagle3-checks[sglang]",
    ),
)


def symptoms(lines: Iterable[str]) -> tuple[Symptom, ...]:
    """Return the signatures found, each once with its first line, in the order of the log."""
    found: dict[str, Symptom] = {}
    for line in lines:
        if line.startswith("    "):  # source text in a traceback, or help of a command line
            continue
        for signature in SIGNATURES:
            if signature.name not in found and signature.pattern.search(line):
                found[signature.name] = Symptom(signature=signature, line=line.strip()[:300])
    return tuple(found.values())
