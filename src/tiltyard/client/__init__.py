"""Client: our own HTTP API, from Python. The only room that sends requests to it."""

from tiltyard.client.async_client import AsyncClient
from tiltyard.client.sync_client import Client

__all__ = ["AsyncClient", "Client"]
