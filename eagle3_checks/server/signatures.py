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
        r"query,? (?:and )?key,?(?: and value)? (?:to|must) have the same dtype|"
        r"expected scalar type \w+ but found \w+",
        "target and drafter are served in different dtypes",
        "give --dtype, or save the drafter in the target's dtype",
    ),
    _of(
        "no-capture-hook",
        r"set_eagle3_layers_to_capture|has no attribute 'get_embed_and_head|"
        r"does not support EAGLE-?3",
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
        r"Capture cuda graph failed: (?!.*out of memory)|"
        r"operation (?:not permitted|failed due to a previous error).* captur",
        "a CUDA graph could not be captured",
        "update SGLang, or tell it from other faults with --cuda-graph-backend-decode=disabled",
    ),
    _of(
        "illegal-access",
        r"an illegal memory access was encountered|device-side assert triggered|"
        r"srcIndex < srcSelectDimSize",
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
        "collective-timeout",
        r"caught collective operation timeout|DistBackendError|NCCL error|ncclUnhandledCudaError|"
        r"Timed out .*waiting for clients|Socket Timeout",
        "the ranks did not find or wait for one another (NCCL)",
        "look for the first rank that failed; check the network (NCCL_DEBUG=INFO), shared memory "
        "(/dev/shm) and that every node runs",
    ),
    _of(
        "kv-pool-exhausted",
        r"(?:Decode|Prefill) out of memory\. Try to lower your batch size",
        "the KV pool ran out of slots, which releases have leaked under speculation at page sizes "
        "over 1",
        "update SGLang, try --page-size 1, or lower --max-running-requests",
    ),
    _of(
        "batch-sizes",
        r"The size of tensor a \(\d+\) must match the size of tensor b|"
        r"The expanded size of the tensor \(\d+\) must match",
        "batches of drafts have another size than the flags give: this release does not take these "
        "steps, topk and draft tokens together",
        "set speculation.topk = 1 with draft_tokens = steps + 1, or update SGLang",
    ),
    _of(
        "drafter-class",
        r"AttributeError: .*(?:set_embed|hot_token_id|capture_aux_hidden_states)|"
        r"AttributeError: '\w*(?:Eagle|EAGLE)\w*' object has no attribute",
        "a part of EAGLE-3 is missing: another class than a drafter's was loaded, or this mode of "
        "serving (DP attention, disaggregation) does not know it",
        "check the drafter's path and architectures (eagle3-checks inspect), then serve without "
        "--enable-dp-attention",
    ),
    _of(
        "quantization-config",
        r"Cannot find the config file for \w+",
        "the drafter takes over --quantization and has no such config",
        "give --speculative-draft-model-quantization=unquant, or update SGLang",
    ),
    _of(
        "weight-name",
        r"KeyError: ['\"](?:model\.)?(?:layers\.\d+|midlayer|fc|lm_head|embed_tokens)\b[\w.]*",
        "the loader meets a tensor for which the drafter has no parameter",
        "compare the drafter's tensor names (eagle3-checks inspect), above all where it or the "
        "target is quantized",
    ),
    _of(
        "weight-shape",
        r"Attempted to load weight \(|vocab_parallel_embedding\.py\", line \d+, in weight_loader",
        "a tensor has another shape than the parameter that the config builds",
        "compare shapes and draft_vocab_size with the config (eagle3-checks inspect)",
    ),
    _of(
        "broken-file",
        r"SafetensorError|MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeaderDeserialization",
        "a safetensors file is damaged or cut off",
        "download it again; eagle3-checks inspect names the file",
    ),
    _of(
        "unsupported-class",
        r"Model architectures \[.*\] (?:are not supported|failed)|"
        r"Transformers does not recognize this architecture",
        "this SGLang release has no class for the architectures of a config.json",
        "use a release that has it, or correct the architectures (eagle3-checks inspect)",
    ),
    _of(
        "nan-logits",
        r"NaN in the logits|probability tensor contains either `inf`, `nan`",
        "the logits hold NaN, as after a wrong dtype, an overflow, or a draft cache that was never "
        "written",
        "check the values (eagle3-checks inspect --values); try --dtype and --disable-radix-cache",
    ),
    _of(
        "kernel-image",
        r"no kernel image is available for execution|CUDA error: invalid device function",
        "a kernel was not built for this GPU",
        "install builds of torch and sglang-kernel for its compute capability",
    ),
    _of(
        "no-driver",
        r"No CUDA GPUs are available|Found no NVIDIA driver|NVIDIA driver on your system is too "
        r"old|CUDA driver version is insufficient",
        "no GPU can be used: the driver is missing or too old, or every GPU is hidden",
        "check nvidia-smi and CUDA_VISIBLE_DEVICES; in a container, --gpus",
    ),
    _of(
        "rank-killed",
        r"Subprocess \S+ \(pid=\d+\) crashed with exit code -9\b|died with <Signals\.SIGKILL",
        "a process of the server was killed, most often by the kernel for want of host memory",
        "look into dmesg for oom-kill; give the host or container more memory",
    ),
    _of(
        "segmentation-fault",
        r"Fatal Python error: (?:Segmentation fault|Bus error)|crashed with exit code -(?:11|7)\b",
        "native code crashed; a bus error means that /dev/shm is full",
        "read the stack in the log; in a container raise --shm-size",
    ),
    _of(
        "disk-full",
        r"No space left on device",
        "a disk is full: of the log, the cache, the temporary folder or /dev/shm",
        "free space (df -h); in a container raise --shm-size",
    ),
    _of(
        "open-files",
        r"Too many open files",
        "the limit of open files is too low for this server",
        "raise it: ulimit -n 65536",
    ),
    _of(
        "build-lock",
        r"file_baton\.py\"?,? (?:line \d+ )?in wait|wait \(torch/utils/file_baton\.py",
        "it waits for the lock of a compilation that was broken off",
        "end other servers, then remove the lock files below ~/.cache/torch_extensions",
    ),
    _of(
        "remote-code",
        r"contains custom code which must be executed|set the option `trust_remote_code=True`",
        "the checkpoint asks for code of its own to be run",
        "give --trust-remote-code in server.args if you trust it, or a tokenizer of SGLang's own",
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
