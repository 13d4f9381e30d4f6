"""A server that takes its time, for finding tests that look at a page before it is there.

On a quick machine a page is whole before a test can look, and a test that forgot to wait passes until the day
when the machine is slow. With ``TILTYARD_TEST_DAWDLE=1`` every answer comes late and every page comes in two
parts, so such a test fails every time: ``TILTYARD_TEST_DAWDLE=1 pytest -m "slow or not slow" tests/pages``.
"""

import asyncio
import os
from typing import Any

#: Seconds before an answer begins, and between the two parts of a page.
_BEFORE, _BETWEEN = 0.15, 0.5


def dawdling(app: Any) -> Any:
    """The application, slowed where the environment asks for it."""
    if not os.environ.get("TILTYARD_TEST_DAWDLE"):
        return app

    async def slowed(scope: Any, receive: Any, send: Any) -> None:
        whole = True

        async def late(message: Any) -> None:
            nonlocal whole
            if message["type"] == "http.response.start":
                await asyncio.sleep(_BEFORE)
                whole = b"text/html" not in dict(message["headers"]).get(b"content-type", b"")
            body = message.get("body", b"")
            if not whole and len(body) > 1:
                whole = True
                half = len(body) // 2
                await send({"type": "http.response.body", "body": body[:half], "more_body": True})
                await asyncio.sleep(_BETWEEN)
                message = {**message, "body": body[half:]}
            await send(message)

        await app(scope, receive, late)

    return slowed
