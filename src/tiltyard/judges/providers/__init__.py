"""Providers: one module for each protocol, behind one small interface, on a thin HTTP client.

Only these modules speak HTTP to providers. Errors are translated here into `ProviderFault`, which says
whether a retry may help and whether the call may have been billed.
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
