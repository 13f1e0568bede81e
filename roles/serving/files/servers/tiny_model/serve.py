# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serves the tiny model of the training image in the style of OpenAI: every token is computed, on one processor.

It runs in the image, with its torch and transformers. Requests that are open at the same time take turns, token by
token.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL, FOLDER = "tiny-llama", "/opt/seatrial/tiny-llama"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class BadRequest(Exception):
    """What a client asked for can't be answered. ``status``: of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Totals:
    """Sums of all requests that have ended, by the name of vLLM's metric."""

    sums: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **values: float) -> None:
        """Add to the sums."""
        with self.lock:
            for name, value in values.items():
                self.sums[name] = self.sums.get(name, 0) + value

    def text(self) -> str:
        """Return the sums as Prometheus reads them."""
        with self.lock:
            return "".join(f'vllm:{name}{{model_name="{MODEL}"}} {value}\n' for name, value in self.sums.items())


class TinyModel:
    """The model and its tokenizer. One token is computed at a time."""

    def __init__(self) -> None:
        import torch
        from transformers import AutoTokenizer, LlamaForCausalLM

        torch.set_num_threads(1)
        self._torch = torch
        self._model = LlamaForCausalLM.from_pretrained(FOLDER).eval()
        self._tokenizer = AutoTokenizer.from_pretrained(FOLDER)
        self._most = self._model.config.max_position_embeddings
        self._turn = threading.Lock()

    def encode(self, text: str, asked: int) -> list[int]:
        """Return the tokens of a prompt. Raises BadRequest if prompt and answer are too long together."""
        tokens: list[int] = self._tokenizer(text)["input_ids"]
        if not tokens or len(tokens) + asked > self._most:
            raise BadRequest(400, f"{len(tokens)} tokens and {asked} of the answer, {self._most} are possible together")
        return tokens

    def generate(self, prompt: list[int], asked: int, ignore_end: bool) -> Iterator[tuple[int, str]]:
        """Yield each token of an answer, the most likely one, and the text that it completes."""
        given, past, answer, said = prompt, None, [], ""
        for _number in range(asked):
            with self._turn, self._torch.inference_mode():
                output = self._model(self._torch.tensor([given]), past_key_values=past, use_cache=True)
            past = output.past_key_values
            token = int(output.logits[0, -1].argmax())
            if token == self._tokenizer.eos_token_id and not ignore_end:
                return
            given = [token]
            answer.append(token)
            text = self._tokenizer.decode(answer)
            # A character may consist of several tokens: it is sent with the last one.
            complete = "" if text.endswith("\N{REPLACEMENT CHARACTER}") else text[len(said) :]
            said += complete
            yield token, complete


def prompt_of(path: str, body: dict[str, Any]) -> str:
    """Return the text that a request asks to continue. Raises BadRequest."""
    try:
        if path == CHAT:
            return "\n".join(f"{one['role']}: {one['content']}" for one in body["messages"])
        return str(body["prompt"])
    except (KeyError, TypeError) as error:
        raise BadRequest(400, f"messages or prompt: {error!r}") from error


def frame(path: str, text: str, finish: str | None, streamed: bool) -> dict[str, Any]:
    """Return a piece of an answer, or the whole one."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    if path == COMPLETIONS:
        choice["text"] = text
    else:
        choice["delta" if streamed else "message"] = {"role": "assistant", "content": text}
    kind = "text_completion" if path == COMPLETIONS else "chat.completion.chunk" if streamed else "chat.completion"
    return {"id": MODEL, "object": kind, "model": MODEL, "created": int(time.time()), "choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection after the other, each in a thread."""

    protocol_version = "HTTP/1.1"
    model: TinyModel
    totals = Totals()

    def log_message(self, format: str, *args: Any) -> None:
        """Write no line for each request."""

    def do_GET(self) -> None:
        """Answer whether the server is ready, which model it has, and its metrics."""
        if self.path == "/health":
            self._send(200, b"", "text/plain")
        elif self.path == "/metrics":
            self._send(200, self.totals.text().encode(), "text/plain")
        elif self.path == "/v1/models":
            self._send_json(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "seatrial"}]})
        else:
            self._send_json(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_POST(self) -> None:
        """Answer a request."""
        began = time.monotonic()
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if self.path not in (CHAT, COMPLETIONS):
                raise BadRequest(404, f"no such path: {self.path}")
            try:
                body = json.loads(content)
                asked = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
            except (ValueError, TypeError, AttributeError) as error:
                raise BadRequest(400, f"not a request: {error}") from error
            if body.get("model") != MODEL:
                raise BadRequest(404, f"The model `{body.get('model')}` does not exist.")
            prompt = self.model.encode(prompt_of(self.path, body), asked)
        except BadRequest as error:
            self._send_json(error.status, {"error": {"message": str(error)}})
            return
        self._answer(body, prompt, asked, began)

    def _answer(self, body: dict[str, Any], prompt: list[int], asked: int, began: float) -> None:
        streamed = bool(body.get("stream"))
        if streamed:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        texts, count, first = [], 0, 0.0
        for _token, text in self.model.generate(prompt, asked, bool(body.get("ignore_eos"))):
            count += 1
            first = first or time.monotonic() - began
            texts.append(text)
            if streamed and text:
                self._send_event(frame(self.path, text, None, True))
        usage = {"prompt_tokens": len(prompt), "completion_tokens": count, "total_tokens": len(prompt) + count}
        finish = "length" if count == asked else "stop"
        # Before the last bytes, so that a client that reads the metrics after its answer finds it counted.
        self.totals.add(
            request_success_total=1,
            prompt_tokens_total=len(prompt),
            generation_tokens_total=count,
            time_to_first_token_seconds_sum=first,
            time_to_first_token_seconds_count=1,
            e2e_request_latency_seconds_sum=time.monotonic() - began,
            e2e_request_latency_seconds_count=1,
        )
        if not streamed:
            self._send_json(200, {**frame(self.path, "".join(texts), finish, False), "usage": usage})
            return
        self._send_event(frame(self.path, "", finish, True))
        if (body.get("stream_options") or {}).get("include_usage"):
            self._send_event({**frame(self.path, "", None, True), "choices": [], "usage": usage})
        self._send_chunk(b"data: [DONE]\n\n")
        self._send_chunk(b"")

    def _send_event(self, event: dict[str, Any]) -> None:
        self._send_chunk(f"data: {json.dumps(event)}\n\n".encode())

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _send_json(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    """Keeps many connections waiting, and forgets those that clients break."""

    daemon_threads = True
    request_queue_size = 128
    handle_error: Callable[..., None] = staticmethod(lambda *_connection: None)


def main() -> None:
    """Load the model, then listen: a server that answers is ready."""
    Handler.model = TinyModel()
    with Server(("", int(sys.argv[1])), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
