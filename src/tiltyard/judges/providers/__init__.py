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
from tiltyard.judges.providers.provider_factory import (
    PROVIDERS,
    STREAMING_PROVIDERS,
    open_provider,
    open_streaming_provider,
)
from tiltyard.judges.providers.streams import (
    ChatProvider,
    ChatRequest,
    ChatTurn,
    StreamEnd,
    StreamingProvider,
    StreamPiece,
    StreamTimeouts,
)

__all__ = [
    "PROVIDERS",
    "STREAMING_PROVIDERS",
    "BatchEntry",
    "BatchItem",
    "BatchStatus",
    "Body",
    "Capabilities",
    "ChatProvider",
    "ChatRequest",
    "ChatTurn",
    "Provider",
    "StreamEnd",
    "StreamPiece",
    "StreamTimeouts",
    "StreamingProvider",
    "Usage",
    "open_provider",
    "open_streaming_provider",
]
