"""Every route that a page has, and the operator's pages as somebody asks for them."""

from collections.abc import Iterator

from tiltyard.web import assets
from tiltyard.web.pages import page_routers

#: The operator's pages of an arena that its menu leads to.
LINKED = (
    "", "/stage", "/shadow", "/models", "/answers", "/prompts", "/preview", "/policy", "/phase", "/settings", "/invitations", "/panels", "/texts", "/voters", "/crowd", "/exclusions", "/complaints",
    "/remarks", "/operators", "/audit", "/exports",
)  # fmt: skip
#: Those that only a form leads to.
ASKED = (
    "/models/retire?model=model-1",
    "/models/details?model=model-1",
    "/prompts/withdraw?prompt=prompt-1",
    "/policy/review?contenders=5",
    "/phase/confirm?phase=2",
    "/settings/review?undo_seconds=5",
    "/stage/confirm?act=archive",
    "/stage/delete",
    "/answers/write",
    "/live",
    "/prompts/view?prompt=prompt-1",
    "/exclude?session=1&reason=a+bot",
    "/erase?session=1",
)


def page_routes() -> Iterator[tuple[str, str]]:
    """Method and path of each."""
    for router in (assets.router, *page_routers()):
        for route in router.routes:
            for method in sorted(set(route.methods) & {"GET", "POST"}):
                yield method, route.path
