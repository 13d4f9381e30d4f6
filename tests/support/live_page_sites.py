"""Live arenas on a real web server, with models that answer by scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.live_pace import quick_pace
from support.live_worlds import ScriptedModels, make_live_arena
from support.postgres_servers import fresh_database
from support.scripted_streams import StreamScript, steady
from support.served import Served, make_operator, served

#: An answer with everything that an answer can have.
LONG = """\
Sure. Here are **three ways** to reverse a list in Python:

1. `items[::-1]` makes a *reversed copy*.
2. `items.reverse()` reverses in place.
3. `reversed(items)` gives an iterator.

```python
def reversed_copy(items: list[int]) -> list[int]:
    \"\"\"A copy of a list, from the last item to the first.\"\"\"
    return items[::-1]


print(reversed_copy([1, 2, 3]))
```

## Which one?

Use the slice if you need a copy, `reverse` if the list is yours, and `reversed` in a loop. All take $O(n)$ time:

$$
T(n) = c \\cdot n
$$

| way | copy | in place |
|---|---|---|
| slice | yes | no |
| reverse | no | yes |
"""
SHORT = """\
You can use `list.reverse()`:

```python
items = [1, 2, 3]
items.reverse()
```

It changes the list itself and returns `None`, which surprises many people. For a new list, write `items[::-1]` instead.

- The first is faster.
- The second is safer.
"""


@dataclass
class LiveSite:
    """A served live arena, and what its models answer."""

    site: Served
    models: ScriptedModels

    def answer(self, *scripts: StreamScript) -> None:
        """Let the models answer so from now on: one script for all, or one for each in turn."""
        for model in range(4):
            self.models.chat(model).scripts[:] = [scripts[model % len(scripts)]]
            self.models.chat(model).asked.clear()

    def add(self, name: str, **settings: Any) -> None:
        """One more live arena with these models."""
        asyncio.run(make_live_arena(self.site.database, 2, name=name, **settings))

    def answer_steadily(self, rate: float = 600.0) -> None:
        """A long answer of every second model, and a short one of the others."""
        self.answer(steady(LONG, rate=rate), steady(SHORT, rate=rate))


@contextmanager
def live_site(server: str, template: str, folder: Path, **settings: Any) -> Iterator[LiveSite]:
    """A live arena called ``arena`` with two models, so that every battle is between them, and the operator Ada.

    Answers are shown faster than in earnest, unless ``usual_pace`` says otherwise.
    """
    count, pace = (
        settings.pop("models", 2),
        nullcontext() if settings.pop("usual_pace", False) else quick_pace(),
    )
    with pace, fresh_database(server, template) as database:
        asyncio.run(make_live_arena(database, count, **settings))
        make_operator(database)
        with served(database, folder=folder) as running:
            models = ScriptedModels()
            running.registry.open_entrant = models.open
            made = LiveSite(running, models)
            made.answer_steadily()
            yield made
