"""Every route that a page has."""

from collections.abc import Iterator

from tiltyard.web import assets
from tiltyard.web.pages import page_routers

__all__ = ["page_routes"]


def page_routes() -> Iterator[tuple[str, str]]:
    """Method and path of each."""
    for router in (assets.router, *page_routers()):
        for route in router.routes:
            for method in sorted(set(route.methods) & {"GET", "POST"}):
                yield method, route.path
