"""Says in a sentence why the Hugging Face Hub's client failed, and what to do."""

from __future__ import annotations

import errno

_SIGN_IN = "set HF_TOKEN to a token that may read it, or sign in with `hf auth login`"
_STATUSES = {
    401: f"the hub refused access (401); {_SIGN_IN}",
    403: f"the hub refused access (403); {_SIGN_IN}",
    404: "the hub has nothing at this address (404); check the name",
    429: "the hub's rate limit is reached (429); wait some minutes, or set HF_TOKEN, which raises the limit",
}
#: How the client says that a file has another size than announced.
_WRONG_SIZE = "onsistency check failed"


def explain_hub_error(error: BaseException, repo: str) -> str:
    """The problem and the remedy. Nothing that the server sent is repeated."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.LocalEntryNotFoundError) and error.__cause__ is not None:
        return explain_hub_error(error.__cause__, repo)
    endpoint = constants.ENDPOINT
    # The first that fits: some are subclasses of others.
    explained: tuple[tuple[type[BaseException], str], ...] = (
        (
            errors.GatedRepoError,
            f"the dataset is gated; accept its conditions at {endpoint}/datasets/{repo}, then {_SIGN_IN}",
        ),
        (errors.DisabledRepoError, "the hub has disabled this dataset; use another"),
        (
            errors.RevisionNotFoundError,
            "the dataset has no such revision; check what follows @ (a slash in it is written %2F)",
        ),
        (
            errors.RepositoryNotFoundError,
            f"no such dataset, or a private one; check the name (models and spaces are not read), or {_SIGN_IN}",
        ),
        (
            errors.OfflineModeIsEnabled,
            f"HF_HUB_OFFLINE is set; unset it, or name what the cache has: hf://datasets/{repo}@COMMIT/FILE",
        ),
        (errors.HFValidationError, "no valid name of a dataset; expected hf://datasets/OWNER/NAME"),
        (errors.HfHubHTTPError, _explain_status(error, endpoint)),
        (errors.EntryNotFoundError, "the dataset has no such file; check the name"),
        (ValueError, f"{endpoint} did not answer as a hub does; check HF_ENDPOINT, or try again later"),
    )
    for kind, sentence in explained:
        if isinstance(error, kind):
            return sentence
    return _explain_broken(error, endpoint)


def _explain_status(error: BaseException, endpoint: str) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return _STATUSES.get(status or 0, f"{endpoint} failed ({status}); try again later")


def _explain_broken(error: BaseException, endpoint: str) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "no space left for the cache of huggingface_hub; free some, or move the cache with HF_HOME"
    if _WRONG_SIZE in str(error):
        return "the download was cut off; run the command again: what arrived whole is not fetched again"
    return (
        f"{endpoint} could not be reached, or the connection broke ({type(error).__name__}); "
        "check the network and HF_ENDPOINT, and run the command again"
    )
