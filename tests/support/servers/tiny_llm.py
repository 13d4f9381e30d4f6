"""A real LLM server on loopback: llama.cpp, serving the tiny model, in its own process.

::

    with tiny_llm() as url:
        open_provider("openai", f"{url}/v1", None, 60)
        open_provider("anthropic", url, None, 60)

About six calls a second. It takes ``response_format`` on ``/v1/chat/completions``; on
``/v1/messages`` neither schemas nor forced tools; some replies cut off inside a schema are a 500.
With ``verdicts=True`` a grammar makes every free reply a verdict line, as of a model that can judge.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support import TESTS

START_SECONDS = 60.0
VERDICTS = 'root ::= "VERDICT: " ("A>>B" | "A>B" | "A=B" | "B>A" | "B>>A")'


@contextmanager
def tiny_llm(
    parallel: int = 4, *, verdicts: bool = False, write: Callable[[Path], None] | None = None
) -> Iterator[str]:
    """Write the model, or another one by ``write``, serve it, and give the base URL (without ``/v1``)."""
    from support.servers.tiny_model import write_tiny_model

    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("wb") as log:
        model = Path(folder, "tiny.gguf")
        (write or write_tiny_model)(model)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "support.servers.tiny_llm",
                str(model),
                str(parallel),
                VERDICTS if verdicts else "",
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            start_new_session=True,
        )
        with process:
            try:
                yield _address(process, model.with_name("address"))
            finally:
                process.kill()


def _address(process: subprocess.Popen[bytes], told: Path) -> str:
    """Where the server says that it listens, once it answers there."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError, urllib.error.URLError):
            url = told.read_text()
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return url
        time.sleep(0.05)
    raise AssertionError(
        f"llama.cpp did not start: {told.with_name('log').read_text(errors='replace')[-2000:]}"
    )


def serve(model: str, parallel: int, grammar: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.port = 0
    params.n_ctx, params.n_parallel, params.n_predict = 32_768, parallel, 512
    params.warmup = False
    if grammar:
        own = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
        params.sampling.grammar = xllamacpp.CommonGrammar(own, grammar)
    # Its threads wait for each other by spinning: on a busy machine one is fastest.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    draft = Path(model).with_name("draft")
    draft.write_text(server.listening_address)
    draft.replace(draft.with_name("address"))
    # Whoever started this holds the other end of standard input: when it closes, they are gone.
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
