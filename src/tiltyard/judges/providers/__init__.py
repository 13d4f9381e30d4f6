"""Providers: one module for each SDK, behind one small protocol.

Only these modules import ``anthropic`` and ``openai``. Errors of the SDKs are translated here
into `ProviderFault`, which says whether a retry may help and whether the call may have been
billed.
"""

from tiltyard.judges.providers.provider import (
    BatchEntry,
    BatchItem,
    BatchStatus,
    Body,
    Capabilities,
    Provider,
    Usage,
)
from tiltyard.judges.providers.provider_factory import PROVIDERS, open_provider

__all__ = [
    "PROVIDERS",
    "BatchEntry",
    "BatchItem",
    "BatchStatus",
    "Body",
    "Capabilities",
    "Provider",
    "Usage",
    "open_provider",
]
