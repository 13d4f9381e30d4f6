"""The billed server's batches: Anthropic's Message Batches and OpenAI's Batch with its files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from support.servers.endpoints import COMPLETIONS, MESSAGES, Refused, error_document
from support.servers.http_front import Request
from support.servers.replies import stated_usage

if TYPE_CHECKING:
    from support.servers.billed_app import BilledApp

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass
class Batch:
    id: str
    kind: str
    items: list[tuple[str, dict[str, Any]]]
    created: float = field(default_factory=time.time)
    ended: float | None = None
    metadata: dict[str, str] | None = None
    input_file: str = ""
    failed: str | None = None
    #: Name to (outcome, body or None), once it has ended.
    outcomes: dict[str, tuple[str, dict[str, Any] | None]] = field(default_factory=dict)

    def count(self, *outcomes: str) -> int:
        return sum(outcome in outcomes for outcome, _ in self.outcomes.values())


class BatchDesk:
    def __init__(self, app: BilledApp) -> None:
        self.app = app
        self.batches: dict[str, Batch] = {}
        self.files: dict[str, bytes] = {}
        self.created = 0
        self.asked = 0
        self.downloads = 0

    def serve(self, request: Request) -> None:
        path, behaviour = request.path, self.app.behaviour
        self.app.till.requests[f"{request.method} {re.sub(r'(batch|file)[-_][a-z0-9]+', '*', path)}"] += 1
        anthropic = path.startswith("/v1/messages/batches")
        kind = "anthropic" if anthropic else "openai"
        rest = path.removeprefix("/v1/messages/batches" if anthropic else "/v1").strip("/").split("/")
        if request.method == "POST":
            self._post(request, kind, rest)
            return
        self.asked += 1
        if behaviour.poll_fault_every and self.asked % behaviour.poll_fault_every == 0:
            faults = ("overload", "server_error", "drop_before")
            fault = faults[self.asked // behaviour.poll_fault_every % 3]
            self.app.till.faults[f"poll_{fault}"] += 1
            self.app.fail(request, fault)
        elif rest in ([""], ["batches"]):
            request.reply(self._page(kind, parse_qs(request.query)))
        elif rest[-1] in {"results", "content"}:
            self._download(request, kind, rest)
        else:
            request.reply(self._document(self._found(kind, rest[-1])))

    def _post(self, request: Request, kind: str, rest: list[str]) -> None:
        behaviour = self.app.behaviour
        if rest == ["files"]:
            request.reply(self._upload(request))
            return
        if rest[-1] == "cancel":
            raise Refused(400, "cancelling is not served here")
        if behaviour.failed_creates > self.app.till.faults["failed_create"]:
            self.app.till.faults["failed_create"] += 1
            self.app.fail(request, "server_error")
            return
        batch = self._create(kind, json.loads(request.body))
        if behaviour.lost_creates > self.app.till.faults["lost_create"]:
            self.app.till.faults["lost_create"] += 1
            request.drop()
        elif behaviour.late_creates > self.app.till.faults["late_create"]:
            self.app.till.faults["late_create"] += 1
            raise Refused(504, "no answer in time", "timeout_error")
        else:
            request.reply(self._document(batch))

    def _create(self, kind: str, asked: dict[str, Any]) -> Batch:
        self.created += 1
        name = hashlib.sha256(b"%d" % self.created).hexdigest()[:24]
        if kind == "anthropic":
            items = [(each["custom_id"], each["params"]) for each in asked["requests"]]
            batch = Batch(f"msgbatch_{name}", kind, items)
            self._check(items)
        else:
            data = self.files[asked["input_file_id"]]
            batch = Batch(f"batch_{name}", kind, [], metadata=asked.get("metadata"))
            batch.input_file = asked["input_file_id"]
            try:
                lines = [json.loads(line) for line in data.splitlines()]
                batch.items = [(line["custom_id"], line["body"]) for line in lines]
                self._check(batch.items)
            except Exception as error:
                batch.failed = str(error)
            if self.app.behaviour.failed_batches > self.app.till.faults["failed_batch"]:
                self.app.till.faults["failed_batch"] += 1
                batch.failed = "Enqueued token limit reached."
        self.batches[batch.id] = batch
        self.app.start(self._process(batch))
        return batch

    def _check(self, items: list[tuple[str, dict[str, Any]]]) -> None:
        names = {name for name, _ in items}
        if not items or len(names) < len(items) or not all(_NAME.fullmatch(name) for name in names):
            raise Refused(400, "custom_id must be unique and match ^[a-zA-Z0-9_-]{1,64}$")
        if len(items) > self.app.behaviour.batch_requests:
            raise Refused(413, "too many requests in one batch", "request_too_large")
        if any(body.get("max_tokens") == 0 for _, body in items):
            raise Refused(400, "max_tokens: 0 is not available in batches")

    async def _process(self, batch: Batch) -> None:
        await asyncio.sleep(self.app.behaviour.batch_seconds)
        outcomes = {}
        for name, body in [] if batch.failed else batch.items:
            outcomes[name] = await self._settle(batch, body)
            if len(outcomes) % 200 == 0:
                await asyncio.sleep(0)
        order = sorted(outcomes, key=lambda name: hashlib.sha256(f"{batch.id} {name}".encode()).digest())
        batch.outcomes = {name: outcomes[name] for name in order}
        batch.ended = time.time()
        self._write_files(batch)

    async def _settle(self, batch: Batch, body: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        behaviour, till = self.app.behaviour, self.app.till
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        digest = hashlib.sha256(raw).digest()
        fault = behaviour.item_fault(digest, till.arrival(digest))
        if fault is not None:
            till.faults[fault] += 1
            return fault, None
        path = MESSAGES if batch.kind == "anthropic" else COMPLETIONS
        if behaviour.forward is None:
            try:
                return "succeeded", self.app.charged(body, digest, path, batch=True)
            except Refused as refused:
                return "bad_item", error_document(path, refused)
        status, reply = await self.app.forward(path, raw)
        if status != 200:
            return "item_error", None
        till.pay(digest, behaviour.prices.charge(stated_usage(reply), batch=True), batch=True)
        return "succeeded", reply

    def _write_files(self, batch: Batch) -> None:
        lines = [
            (outcome, result_line(batch.kind, name, outcome, body))
            for name, (outcome, body) in batch.outcomes.items()
        ]
        if batch.kind == "anthropic":
            self.files[batch.id] = b"".join(line for _, line in lines)
            return
        self.files[f"file-out-{batch.id}"] = b"".join(
            line for outcome, line in lines if outcome == "succeeded"
        )
        self.files[f"file-err-{batch.id}"] = b"".join(
            line for outcome, line in lines if outcome != "succeeded"
        )

    def _upload(self, request: Request) -> dict[str, Any]:
        boundary = b"--" + re.search(rb"boundary=([^\r\n;]+)", request.raw_head).group(1).strip(b'"')
        found = {}
        for part in request.body.split(boundary)[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            found[re.search(rb'name="([^"]+)"', head)[1].decode()] = content.removesuffix(b"\r\n")
        if found.get("purpose") != b"batch":
            raise Refused(400, "purpose must be batch")
        if len(found["file"]) > self.app.behaviour.batch_bytes:
            raise Refused(413, "the file is too large")
        name = f"file-{hashlib.sha256(b'%d' % len(self.files)).hexdigest()[:24]}"
        self.files[name] = found["file"]
        size = len(found["file"])
        return {
            "id": name,
            "object": "file",
            "bytes": size,
            "filename": "questions.jsonl",
            "purpose": "batch",
        }

    def _download(self, request: Request, kind: str, rest: list[str]) -> None:
        if rest[-1] == "results" and self._found(kind, rest[-2]).ended is None:
            raise Refused(400, "the batch has not ended yet")
        if rest[-2] not in self.files:
            raise Refused(404, f"no file {rest[-2]}", "not_found_error")
        data, behaviour = self.files[rest[-2]], self.app.behaviour
        whole = self.downloads >= behaviour.cut_results
        self.downloads += 1
        lines = data.splitlines(keepends=True)
        pieces = lines if whole else [*lines[: len(lines) // 2], lines[len(lines) // 2][:20]]
        if whole and behaviour.short_results > self.app.till.faults["short_results"]:
            self.app.till.faults["short_results"] += 1
            pieces = lines[: len(lines) // 2]
        self.app.start(request.front.stream(_spaced(pieces, behaviour.results_pause), whole=whole))

    def _page(self, kind: str, query: dict[str, list[str]]) -> dict[str, Any]:
        ours = [batch for batch in reversed(self.batches.values()) if batch.kind == kind]
        after = query.get("after_id" if kind == "anthropic" else "after", [""])[0]
        names = [batch.id for batch in ours]
        start = names.index(after) + 1 if after in names else 0
        limit = int(query.get("limit", ["20"])[0])
        page = ours[start : start + limit]
        return {
            "object": "list",
            "data": [self._document(batch) for batch in page],
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
            "has_more": start + limit < len(ours),
        }

    def _found(self, kind: str, name: str) -> Batch:
        batch = self.batches.get(name)
        if batch is None or batch.kind != kind:
            raise Refused(404, f"no batch {name}", "not_found_error")
        return batch

    def _document(self, batch: Batch) -> dict[str, Any]:
        if batch.kind == "anthropic":
            return _anthropic_batch(batch)
        document, till = _openai_batch(batch), self.app.till
        if batch.ended is not None and self.app.behaviour.late_files > till.faults["late_files"]:
            till.faults["late_files"] += 1
            document |= {"output_file_id": None, "error_file_id": None}
        return document


def _anthropic_batch(batch: Batch) -> dict[str, Any]:
    done = batch.ended is not None
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if done else "in_progress",
        "request_counts": {
            "processing": 0 if done else len(batch.items),
            "succeeded": batch.count("succeeded"),
            "errored": batch.count("item_error", "bad_item"),
            "canceled": 0,
            "expired": batch.count("expire"),
        },
        "created_at": _iso(batch.created),
        "expires_at": _iso(batch.created + 86_400),
        "ended_at": _iso(batch.ended) if done else None,
        "cancel_initiated_at": None,
        "archived_at": None,
        "results_url": f"https://api.anthropic.com/v1/messages/batches/{batch.id}/results" if done else None,
    }


def _openai_batch(batch: Batch) -> dict[str, Any]:
    done, expired = batch.ended is not None, batch.count("expire")
    status = "failed" if batch.failed else "expired" if expired else "completed"
    errors = {"object": "list", "data": [{"code": "invalid", "message": batch.failed, "line": None}]}
    bad = len(batch.outcomes) - batch.count("succeeded")
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": COMPLETIONS,
        "errors": errors if done and batch.failed else None,
        "input_file_id": batch.input_file,
        "completion_window": "24h",
        "status": status if done else "in_progress",
        "output_file_id": f"file-out-{batch.id}" if batch.count("succeeded") else None,
        "error_file_id": f"file-err-{batch.id}" if bad else None,
        "created_at": int(batch.created),
        "expires_at": int(batch.created) + 86_400,
        "completed_at": int(batch.ended) if batch.ended and status == "completed" else None,
        "request_counts": {
            "total": len(batch.items),
            "completed": batch.count("succeeded"),
            "failed": bad,
        },
        "metadata": batch.metadata,
    }


def result_line(kind: str, name: str, outcome: str, body: dict[str, Any] | None) -> bytes:
    line = _anthropic_line(name, outcome, body) if kind == "anthropic" else _openai_line(name, outcome, body)
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _anthropic_line(name: str, outcome: str, body: dict[str, Any] | None) -> dict[str, Any]:
    kinds = {"item_error": "api_error", "bad_item": "invalid_request_error"}
    if outcome == "succeeded":
        return {"custom_id": name, "result": {"type": "succeeded", "message": body}}
    if outcome == "expire":
        return {"custom_id": name, "result": {"type": "expired"}}
    made = {"type": "error", "error": {"type": kinds[outcome], "message": f"made to fail: {outcome}"}}
    error = body or made
    return {"custom_id": name, "result": {"type": "errored", "error": error}}


def _openai_line(name: str, outcome: str, body: dict[str, Any] | None) -> dict[str, Any]:
    line = {"id": f"batch_req_{name}", "custom_id": name, "response": None, "error": None}
    if outcome == "expire":
        error = {"code": "batch_expired", "message": "not executed before the completion window expired"}
        return line | {"error": error}
    status = {"succeeded": 200, "item_error": 500, "bad_item": 400}[outcome]
    kinds = {"item_error": "server_error", "bad_item": "invalid_request_error"}
    failure = {"error": {"message": f"made to fail: {outcome}", "type": kinds.get(outcome), "code": None}}
    response = {"status_code": status, "request_id": f"req_{name}", "body": body or failure}
    return line | {"response": response}


async def _spaced(pieces: list[bytes], pause: float) -> AsyncIterator[bytes]:
    for number, piece in enumerate(pieces):
        if number == 1 and pause:
            await asyncio.sleep(pause)
        yield piece


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")
