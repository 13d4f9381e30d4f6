"""Requests of voters that another process decides: the one that owns their arena.

The calls and their replies pass as JSON, checked by the types of the methods: those of the voting queue, and those of
other objects of an arena, whose calls have names of their own (`run_by_owner`).
"""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar
from uuid import UUID

from pydantic import TypeAdapter

from tiltyard import errors
from tiltyard.arena.processes.process_links import LinkFault, ProcessLinks
from tiltyard.arena.processes.rendezvous import ProcessRing
from tiltyard.arena.voting.voter_requests import EndedMatchup, OfferedMatchup, RevealedMatchup, Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import StoreFault, TiltyardError
from tiltyard.instruments import FORWARDED_REQUESTS

__all__ = ["OwnerCalls", "decided_by_owner", "handle_call", "run_by_owner"]

_LOG = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Reply = TypeVar("Reply")

#: Processes that are asked, one after the other, before this process decides itself.
_ASKED_PROCESS_LIMIT = 2

_DETAIL = dict[str, Any] | None
#: The types of each call: of its arguments, in the order of the method's parameters, and of its reply.
_CALL_TYPES: Final[dict[str, tuple[Any, Any]]] = {
    "next_matchup": (tuple[Voter, bool], OfferedMatchup),
    "begin_live": (tuple[Voter, int, int, tuple[int, ...]], OfferedMatchup),
    "end_void": (tuple[UUID, str], bool),
    "look_ahead": (tuple[Voter, UUID | None], OfferedMatchup),
    "show": (tuple[Voter, UUID], OfferedMatchup),
    "note_delivery": (tuple[UUID, int | None, int | None], bool),
    "open_matchups": (tuple[Voter], list[OfferedMatchup]),
    "vote": (tuple[Voter, UUID, Kind, int, bool, _DETAIL], EndedMatchup),
    "skip": (tuple[Voter, UUID, _DETAIL], EndedMatchup),
    "undo": (tuple[Voter, UUID, int], EndedMatchup),
    "reveal": (tuple[Voter, UUID], RevealedMatchup),
    "finish": (tuple[Voter], int),
    "unrevealed_votes": (tuple[Voter], int),
    "responses_by_prompt": (tuple[()], list[int]),
}


class _Decision:
    """A method that the owner of an arena runs, and how its calls are written."""

    def __init__(self, name: str, method: Callable[..., Awaitable[Any]], arguments: Any, reply: Any) -> None:
        parameters = list(inspect.signature(method).parameters.values())[1:]
        self.name = name.encode()
        self.arguments_type: TypeAdapter[tuple[Any, ...]] = TypeAdapter(arguments)
        self.reply_type: TypeAdapter[Any] = TypeAdapter(reply)
        self._method = method
        self._defaults = {parameter.name: parameter.default for parameter in parameters}
        self._names = tuple(self._defaults)
        self._n_positional = sum(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The values of all parameters, in their order."""
        given = {**self._defaults, **dict(zip(self._names, args, strict=False)), **kwargs}
        return tuple(given.values())

    async def run(self, target: object, arguments: tuple[Any, ...]) -> Any:
        """Decide here."""
        n = self._n_positional
        by_name = dict(zip(self._names[n:], arguments[n:], strict=True))
        return await self._method(target, *arguments[:n], **by_name)


_DECISIONS: dict[str, _Decision] = {}


class _Routed(Protocol):
    """What the decorators need of an object of an arena."""

    arena: int
    owner_calls: OwnerCalls | None


Target = TypeVar("Target", bound=_Routed)
Routed = Callable[Concatenate[Target, Parameters], Coroutine[Any, Any, Reply]]


def decided_by_owner(
    method: Callable[Concatenate[Target, Parameters], Coroutine[Any, Any, Reply]],
) -> Callable[Concatenate[Target, Parameters], Coroutine[Any, Any, Reply]]:
    """Make a method of the voting queue run in the process that owns the arena."""
    arguments, reply = _CALL_TYPES[method.__name__]
    return _routed(_Decision(method.__name__, method, arguments, reply), method)


def run_by_owner(
    name: str, arguments: Any, reply: Any
) -> Callable[[Routed[Target, Parameters, Reply]], Routed[Target, Parameters, Reply]]:
    """Make a method of another object of an arena run in the process that owns the arena.

    ``name`` is that of the call. The part before its first underscore says to which kind of object it goes.
    ``arguments`` is the type of all arguments as a tuple, ``reply`` that of the reply.
    """

    def decorate(method: Routed[Target, Parameters, Reply]) -> Routed[Target, Parameters, Reply]:
        return _routed(_Decision(name, method, arguments, reply), method)

    return decorate


def _routed(
    decision: _Decision, method: Routed[Target, Parameters, Reply]
) -> Routed[Target, Parameters, Reply]:
    assert decision.name.decode() not in _DECISIONS, "calls have different names"
    _DECISIONS[decision.name.decode()] = decision

    @wraps(method)
    async def routed(target: Target, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Reply:
        calls = target.owner_calls
        if calls is not None and not calls.ring.owns(target.arena):
            with contextlib.suppress(LinkFault):
                reply: Reply = await calls.call(target.arena, decision, decision.arguments(args, kwargs))
                return reply
            # No other process answers. This one can decide as well: the log's lock keeps order.
        return await method(target, *args, **kwargs)

    return routed


class OwnerCalls:
    """Sends calls to the owners of arenas."""

    def __init__(self, ring: ProcessRing, links: ProcessLinks) -> None:
        self.ring = ring
        self._links = links

    async def call(self, arena: int, decision: _Decision, arguments: tuple[Any, ...]) -> Any:
        """Let the owner of an arena decide; raise its refusal, or `LinkFault` if this process should decide.

        A process that does not answer is passed over. A repeated request gets the same reply, whether or not
        the first one was carried out; a repeated request to prefetch may get another matchup.
        """
        request = b"%d %s %s" % (arena, decision.name, decision.arguments_type.dump_json(arguments))
        for _ in range(_ASKED_PROCESS_LIMIT):
            owner = self.ring.owner_of(arena)
            if owner == self.ring.own:
                break
            try:
                reply = await self._links.ask(owner, request)
            except LinkFault:
                self.ring.suspect(owner)
                FORWARDED_REQUESTS.record(1, "no answer")
                continue
            FORWARDED_REQUESTS.record(1, "answered")
            return _read_reply(decision, reply)
        raise LinkFault("no other process answers")

    async def call_process(self, process: int, arena: int, name: str, *arguments: Any) -> Any:
        """Let a process run a call by its name, whoever owns the arena; raise its refusal, or `LinkFault`."""
        decision = _DECISIONS[name]
        found = next((one for one in self.ring.members if one.process == process), None)
        if found is None or found == self.ring.own:
            raise LinkFault("that process is not another one of this service")
        request = b"%d %s %s" % (arena, decision.name, decision.arguments_type.dump_json(arguments))
        return _read_reply(decision, await self._links.ask(found, request))


def _read_reply(decision: _Decision, reply: bytes) -> Any:
    if reply.startswith(b"!"):
        raise _refusal(json.loads(reply[1:]))
    return decision.reply_type.validate_json(reply)


async def handle_call(request: bytes, find: Callable[[str, int], Awaitable[object]]) -> bytes:
    """Decide a request of another process: the reply as JSON, or ``!`` and the refusal.

    ``find`` gives the object of an arena that runs a call, by the call's name and the arena's number.
    """
    try:
        arena, name, text = request.split(b" ", 2)
        decision = _DECISIONS[name.decode()]
        arguments = decision.arguments_type.validate_json(text)
        target = await find(name.decode(), int(arena))
        return decision.reply_type.dump_json(await decision.run(target, arguments))
    except (ValueError, KeyError):
        return _refused(StoreFault("processes of different versions serve this arena; try again in a moment"))
    except TiltyardError as refusal:
        return _refused(refusal)
    except Exception as error:  # noqa: BLE001 - the process that asked must not wait for ever
        _LOG.error("deciding for another process failed: %s", type(error).__name__)
        return _refused(StoreFault("the process that decides for this arena failed; try again in a moment"))


def _refused(refusal: TiltyardError) -> bytes:
    kind = type(refusal).__name__
    return b"!" + json.dumps([kind, list(refusal.args), vars(refusal)]).encode()


def _refusal(told: tuple[str, list[Any], dict[str, Any]]) -> TiltyardError:
    kind, args, values = told
    found = getattr(errors, kind, None)
    if not isinstance(found, type) or not issubclass(found, TiltyardError):
        found = StoreFault
    refusal: TiltyardError = found.__new__(found)
    refusal.args = tuple(args)
    vars(refusal).update(values)
    return refusal
