"""Pages for people: each module has the routes of one, in its ``router``."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from fastapi import APIRouter

__all__ = ["page_routers"]


def page_routers() -> list[APIRouter]:
    """The routes of every page."""
    modules = pkgutil.walk_packages(__path__, f"{__name__}.")
    found = (getattr(import_module(one.name), "router", None) for one in modules)
    return [router for router in found if isinstance(router, APIRouter)]
