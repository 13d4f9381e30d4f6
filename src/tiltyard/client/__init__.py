"""Client: our own HTTP API, from Python. The only room that sends requests to it.

Every method is defined once, in `voter_calls`, `reader_calls` and `operator_calls`, as the call that it sends;
both clients have them all.
"""

from __future__ import annotations

from tiltyard.client.operator_calls import OperatorCalls
from tiltyard.client.reader_calls import ReaderCalls
from tiltyard.client.transport import AsyncTransport, Transport
from tiltyard.client.voter_calls import VoterCalls

__all__ = ["AsyncClient", "Client"]


class Client(VoterCalls, ReaderCalls, OperatorCalls, Transport):
    """One voter, judge, reader or operator of a server. Cookies are kept: a client is one voter.

    ``timeout`` is for one request. For ``patience`` seconds in all, a call is sent again when the server
    cannot be reached or says "not now", if sending it twice does what sending it once does. A vote is
    such a call: the same vote again gives the same answer.

    What the server refuses is raised as it was there: `NotFound`, `NotAllowed`, `Closed`, `Expired`,
    `Conflict`, `NoMatchup`, `InputError`. A server that cannot be reached is a `StoreFault`.
    """


class AsyncClient(VoterCalls, ReaderCalls, OperatorCalls, AsyncTransport):
    """The same for asynchronous code: methods are awaited, and what `Client` iterates over is an ``async for``."""
