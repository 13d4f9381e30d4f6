"""A real web server on loopback over a real database, in a thread of the test's own process."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from starlette.routing import BaseRoute, Route

from support.dawdling import dawdling
from tiltyard.arena.accounts import Accounts
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.operators.invitations import LiveInvitations
from tiltyard.arena.processes.shared_limits import SharedLimits
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.postgres.connections import open_pool
from tiltyard.settings.serving_settings import ServingSettings, SignInSettings
from tiltyard.simulation.settling_gap import SettlingForecast
from tiltyard.web.access.access import Access, Context, app_context
from tiltyard.web.access.cookies import Cookies
from tiltyard.web.access.identities import Identities
from tiltyard.web.access.rate_limits import VoterLimits
from tiltyard.web.edge.http_limits import LimitedProtocol
from tiltyard.web.pages.layout import PageTemplates
from tiltyard.web.pages.operator import arenas as operator_arenas
from tiltyard.web.server.app import make_app

SECRET = "a secret for tests that is long enough"


def bare_access(accounts: Any = None) -> Access:
    """The access control of a process without a database."""
    keys, settings = SecretKeys([SECRET]), ServingSettings(port=0)
    identities = Identities(Any, keys, Cookies(keys, secure=False), SignInSettings(), settings.shard)
    identities.forget = lambda: None
    limits = VoterLimits(SharedLimits(None, keys), settings)
    return Access(accounts, LiveInvitations(None), keys, settings, identities, limits)


PASSWORD = "correct horse battery"
#: The routers that the first application includes. FastAPI reads all signatures again for each application, at its
#: first request, and Jinja all templates: two seconds of CPU, and they are the same for all.
_INCLUDED: list[BaseRoute] = []
_TEMPLATES: dict[str, bytes] = {}
_make_environment = PageTemplates._made


class _CompiledTemplates(BytecodeCache):
    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in _TEMPLATES:
            bucket.bytecode_from_string(_TEMPLATES[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        _TEMPLATES[bucket.key] = bucket.bytecode_to_string()


def _environment_with_compiled(templates: PageTemplates, localization: Any) -> Environment:
    environment = _make_environment(templates, localization)
    environment.bytecode_cache = _CompiledTemplates()
    return environment


PageTemplates._made = _environment_with_compiled
#: A forecast takes seconds of CPU for each shape of an arena; `tests/simulation` makes real ones.
operator_arenas.settling_forecast = lambda models, prompts, people, _: SettlingForecast(
    models, prompts, people, 300.0, 0, 0, None
)


@dataclass
class Served:
    """A server that answers, what it serves, and clients that are closed with it."""

    url: str
    database: str
    app: Any
    registry: ArenaRegistry
    loop: asyncio.AbstractEventLoop
    clients: list[httpx2.Client] = field(default_factory=list)

    @property
    def context(self) -> Context:
        """What its requests share."""
        return app_context(self.app)

    def client(self, token: str | None = None, **options: Any) -> httpx2.Client:
        """A new visitor, with its own cookies."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        made = httpx2.Client(base_url=self.url, headers=headers, timeout=30, **options)
        self.clients.append(made)
        return made

    def run(self, coroutine: Any) -> Any:
        """Run something in the server's own event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)


@contextmanager
def served(
    database: str,
    *,
    settings: ServingSettings | None = None,
    keys: SecretKeys | None = None,
    folder: Path | None = None,
    pooler: str | None = None,
    sign_in: SignInSettings | None = None,
) -> Iterator[Served]:
    """Serve a database until the block is left; with a pooler, the pool of connections goes through it."""
    started: dict[str, Any] = {}
    ready = threading.Event()

    async def serving() -> None:
        async with open_pool(pooler or database, most=4, pooled=pooler is not None) as pool:
            blobs = BlobStore(pool, FolderStorage(folder or Path("/nonexistent")))
            serving_settings = settings or ServingSettings(port=0)
            registry = ArenaRegistry(serving_settings, database, pool, blobs)
            app = make_app(registry, keys or SecretKeys([SECRET]), sign_in=sign_in)
            _share_routes(app)
            config = uvicorn.Config(
                dawdling(app),
                http=LimitedProtocol,
                ws="none",
                host="127.0.0.1",
                port=0,
                log_config=None,
                server_header=False,
                access_log=False,
                proxy_headers=False,
            )
            server = uvicorn.Server(config)
            started.update(server=server, app=app, registry=registry, loop=asyncio.get_running_loop())
            task = asyncio.create_task(server.serve())
            while not server.started and not task.done():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            ready.set()
            await task

    def running() -> None:
        try:
            asyncio.run(serving())
        except BaseException as error:
            started["error"] = error
        finally:
            ready.set()

    thread = threading.Thread(target=running, daemon=True)
    thread.start()
    assert ready.wait(60), "the server did not start"
    if "error" in started:
        raise started["error"]
    server = started["server"]
    assert server.started, "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    site = Served(f"http://127.0.0.1:{port}", database, started["app"], started["registry"], started["loop"])
    try:
        yield site
    finally:
        for client in site.clients:
            client.close()
        server.should_exit = True
        end = time.monotonic() + 30
        thread.join(30)
        assert time.monotonic() < end, "the server did not stop"


def _share_routes(app: Any) -> None:
    """Replace the routers that an application includes by those of the first, which have been read."""
    own = [route for route in app.router.routes if isinstance(route, Route)]
    if not _INCLUDED:
        _INCLUDED.extend(route for route in app.router.routes if route not in own)
    app.router.routes[:] = [*own, *_INCLUDED]


def make_operator(database: str, name: str = "Ada") -> None:
    """An operator with the usual password."""

    async def making() -> None:
        async with open_pool(database, most=1) as pool:
            accounts = Accounts(pool)
            await accounts.claim(await accounts.make_operator_link(), name, PASSWORD)

    asyncio.run(making())


def make_token(database: str, *scopes: str, arena: str | None = None, name: str = "test") -> str:
    """A token with these scopes."""

    async def making() -> str:
        async with open_pool(database, most=1) as pool:
            token, _ = await Accounts(pool).make_token("cli", name, scopes, arena=arena)
            return token

    return asyncio.run(making())
