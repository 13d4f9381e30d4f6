"""What the text of a matchup's id says, for tests that compare pages with tables."""

import base64
from uuid import UUID


def stored_id(text: str) -> UUID:
    """The id in the tables; the signature is not checked."""
    shard, _, rest = text.partition("-")
    return UUID(bytes=int(shard).to_bytes(2) + base64.urlsafe_b64decode(rest)[:14])
