"""Client: our own HTTP API, from Python. The only room that sends requests to it."""

from tiltyard.client.asynchronous import AsyncClient
from tiltyard.client.synchronous import Client

__all__ = ["AsyncClient", "Client"]
