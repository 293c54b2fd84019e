"""An endpoint of OpenAI's form on this machine. A test decides its answers, also wrong ones."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """A request as the endpoint got it."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    moment: float

    @property
    def prompt(self) -> str:
        return self.body["messages"][0]["content"]


@dataclass
class Reply:
    """What the endpoint sends, after some seconds.

    `cut` closes the connection within the body. `endless` sends bytes until the client closes the connection; so does
    `trickling`, one byte at a time.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    cut: bool = False
    endless: bool = False
    trickling: bool = False


def says(content: Any, **reply: Any) -> Reply:
    """A completion of chat with a text; a value that is no text becomes JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return Reply(json.dumps({"object": "chat.completion", "choices": choices, "usage": usage}).encode(), **reply)


class StandIn:
    """The endpoint: its URL, the requests that it got, and how many were open at once."""

    def __init__(self, answer: Callable[[Request], Reply]):
        self.answer, self.requests, self.url = answer, list[Request](), ""
        self.open, self.most_open, self.connections = 0, 0, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")[:-2]
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                path = first.split()[1]
                request = Request(len(self.requests), path, headers, json.loads(body or b"{}"), time.monotonic())
                self.requests.append(request)
                self.open += 1
                self.most_open = max(self.open, self.most_open)
                try:
                    if not await self._reply(writer, self.answer(request)):
                        break
                finally:
                    self.open -= 1
        writer.close()

    async def _reply(self, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        """Send a reply; whether the connection stays."""
        await asyncio.sleep(reply.seconds)
        length = 10**9 if reply.endless or reply.trickling else len(reply.body) + (10 if reply.cut else 0)
        headers = {"Content-Type": "application/json", "Content-Length": str(length), **reply.headers}
        head = [f"HTTP/1.1 {reply.status} Some", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write(("\r\n".join(head) + "\r\n\r\n").encode() + reply.body)
        while reply.endless:
            writer.write(b" " * 65536)
            await writer.drain()
        while reply.trickling:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)
        await writer.drain()
        return not reply.cut


@contextmanager
def endpoint(answer: Callable[[Request], Reply]) -> Iterator[StandIn]:
    """Run an endpoint in a thread, as long as the block lasts."""
    stand_in, loop = StandIn(answer), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(stand_in.serve, "127.0.0.1", 0, limit=1 << 24))
    stand_in.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
