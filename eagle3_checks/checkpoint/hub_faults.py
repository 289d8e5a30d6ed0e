"""What the hub, or the way to it, refuses: in words a person can act on, and never with a token.

Messages are put together from statuses and codes alone; texts of servers and of HTTP libraries may
hold signed addresses, and are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from eagle3_checks.checkpoint.files import problem, shown
from eagle3_checks.facts import FileFault, FileProblem

LOGIN = "log in with `hf auth login`, or set HF_TOKEN"
NO_HUB = "it answers, but not as a hub does (a login page of the network?)"
_BAD_TOKEN = "Invalid credentials in Authorization header"
_DISABLED = "Access to this resource is disabled."


def not_an_id(source: str) -> FileProblem:
    """Neither a folder nor a hub id."""
    detail = "there is no such folder, and it is no hub id of the form org/name[@revision]"
    return problem(FileFault.MISSING, source, detail, "give an existing folder or a hub id")


def no_revision(source: str, name: str) -> FileProblem:
    """A hub id that ends where its revision should begin."""
    detail = "there is no such folder, and the revision after @ is empty; is a variable unset?"
    fix = f"write {name} for its main branch, or name a branch, tag or commit after @"
    return problem(FileFault.MISSING, source, detail, fix)


def address(source: str) -> FileProblem:
    """A web address in place of a hub id."""
    parts = source.partition("://")[2].split("/")[1:3]
    name = "/".join(parts) if len(parts) > 1 and all(parts) else "org/name"
    detail = "it is a web address, neither a folder nor a hub id"
    return problem(FileFault.MISSING, source, detail, f"write the hub id: {shown(name)}")


def offline(source: str) -> FileProblem:
    """Offline mode, and nothing in the cache."""
    return problem(
        FileFault.MISSING,
        source,
        "there is no such folder, it is not (or not wholly) in the hub's cache, and HF_HUB_OFFLINE "
        "is set",
        "unset HF_HUB_OFFLINE, or download it where there is a network (`hf download`)",
    )


def unreachable(source: str, reason: str) -> FileProblem:
    """No answer, or none that is whole."""
    return problem(
        FileFault.UNREADABLE,
        source,
        f"there is no such folder, and the hub cannot be read: {reason}",
        "check the network, proxies and HF_ENDPOINT, or give a local folder; with "
        "HF_HUB_OFFLINE=1 what the hub's cache holds is read",
    )


def network_problem(source: str, error: BaseException) -> FileProblem:
    """Turn what an HTTP library raised into a problem, by the kind of the exception."""
    kind = " ".join(kind.__name__ for kind in type(error).__mro__)
    reasons = (
        ("JSONDecode", NO_HUB),
        ("Timeout", "the connection timed out"),
        ("SSL", "the certificate of the connection is not accepted"),
        ("Proxy", "the proxy refuses the connection"),
        ("Chunked", "the connection broke off"),
        ("Protocol", "the connection broke off"),
        ("Connect", "no connection can be made"),
    )
    words = next((words for part, words in reasons if part in kind), type(error).__name__)
    return unreachable(source, words)


def refused(
    source: str, revision: str, status: int, headers: Mapping[str, Any], *, token: bool
) -> FileProblem:
    """Turn the hub's refusal (HTTP status and ``X-Error-*`` headers) into a problem.

    `token` says whether a token was sent with the request.
    """
    code, text = headers.get("X-Error-Code", ""), headers.get("X-Error-Message", "")
    name = source.partition("@")[0]
    seen = "the account whose token is set may not see it" if token else LOGIN
    fault = FileFault.UNREADABLE
    if status == HTTPStatus.UNAUTHORIZED and text == _BAD_TOKEN:
        detail = "the hub does not accept the token that is set (HTTP 401)"
        fix = "log in again with `hf auth login`, or correct HF_TOKEN"
    elif code == "GatedRepo":
        detail = "access to it is restricted (gated)"
        fix = f"ask for access on the page of {name}, then {'use its token' if token else LOGIN}"
    elif text == _DISABLED:
        detail, fix = "the hub has disabled it", "give another source"
    elif code == "RevisionNotFound":
        fault = FileFault.MISSING
        detail = f"the hub has no revision {revision or 'main'!r} of it"
        fix = "correct the revision after the @"
    elif code == "EntryNotFound":
        fault = FileFault.MISSING
        detail = "the hub's list of its files names one that is not there"
        fix = "try again: it may be changing just now"
    elif code == "RepoNotFound" or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND):
        fault = FileFault.MISSING
        detail = "there is no such folder, and the hub has no such repository, or hides it"
        fix = f"correct the name; for a private repository {seen}"
    elif status == HTTPStatus.FORBIDDEN:
        detail, fix = "the hub gives no access to it (HTTP 403)", seen
    elif status == HTTPStatus.TOO_MANY_REQUESTS:
        detail = "the hub has had too many requests from here (HTTP 429)"
        fix = "wait a few minutes" if token else f"wait a few minutes; for a higher limit {LOGIN}"
    else:
        return unreachable(source, f"it answers HTTP {status}")
    return problem(fault, source, detail, fix)
