"""HTTP for the system tests of the gateway, by Python's standard library."""
import http.client
import json
import os
import socket
import ssl
import time
from urllib.parse import urlsplit

MODEL = "tiny-hybrid"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PATIENCE = float(os.environ.get("SLUICE_PATIENCE", "300"))
STORY = "Once upon a time there was a little fox."
LONG = {"max_tokens": 3000, "ignore_eos": True, "stream": True}


def chat(content=STORY, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": content}],
            "temperature": 0, "max_tokens": 12, **more}


def text(prompt=STORY, **more):
    return {"model": MODEL, "prompt": prompt, "temperature": 0,
            "max_tokens": 12, **more}


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"
        time.sleep(0.02)


class Reply:
    """Status, headers (names in lower case) and body of an answer."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.body = response.read()

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The error object, after a check of its shape."""
        error = self.json()["error"]
        assert set(error) >= {"message", "type", "param", "code"}, error
        return error

    def text(self):
        """The text of the only choice."""
        (choice,) = self.json()["choices"]
        return choice["message"]["content"] if "message" in choice \
            else choice["text"]


class Gateway:
    def __init__(self, url, key=None, cafile=None):
        self.parts = urlsplit(url)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.tls = None
        if self.parts.scheme == "https":
            self.tls = ssl.create_default_context(cafile=cafile)

    def connect(self):
        if self.tls is not None:
            return http.client.HTTPSConnection(
                self.parts.hostname, self.parts.port, timeout=PATIENCE,
                context=self.tls)
        return http.client.HTTPConnection(
            self.parts.hostname, self.parts.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, headers=None):
        """Sends a request and returns its response, with nothing read."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        connection = self.connect()
        connection.request(method, path, body,
                           {"Content-Type": "application/json",
                            **self.headers, **(headers or {})})
        return connection, connection.getresponse()

    def get(self, path, method="GET", headers=None):
        connection, response = self.ask(method, path, None, headers)
        reply = Reply(response)
        connection.close()
        return reply

    def post(self, path, body, headers=None):
        connection, response = self.ask("POST", path, body, headers)
        reply = Reply(response)
        connection.close()
        return reply

    def stream(self, path, body):
        return Stream(self, path, {**body, "stream": True})

    def raw(self, data):
        """Sends bytes on a connection of their own; returns it."""
        s = socket.create_connection(
            (self.parts.hostname, self.parts.port), timeout=PATIENCE)
        s.sendall(data)
        return s

    def raw_answer(self, data):
        """Sends bytes and returns all that comes until the gateway closes."""
        with self.raw(b"") as s:
            try:
                s.sendall(data)
            except ConnectionError:
                pass  # refused before all was sent; the answer may be there
            got = b""
            try:
                while more := s.recv(65536):
                    got += more
            except ConnectionError:
                pass
            return got


class Stream:
    """A stream of events; iterating gives their data, parsed."""

    def __init__(self, gateway, path, body):
        self.connection, self.response = gateway.ask("POST", path, body)
        self.done = False

    def __iter__(self):
        for line in self.response:
            line = line.rstrip(b"\r\n")
            if line == b"data: [DONE]":
                self.done = True
            elif line.startswith(b"data: "):
                assert not self.done, "an event after [DONE]"
                yield json.loads(line[len(b"data: "):])

    def text(self):
        """The whole text of the only choice; fails on an error."""
        pieces = []
        for chunk in self:
            assert "error" not in chunk, chunk
            for choice in chunk["choices"]:
                pieces.append(choice["delta"].get("content") or ""
                              if "delta" in choice else choice["text"])
        assert self.done, "no [DONE]"
        return "".join(pieces)

    def first(self, n=3):
        """Reads n chunks, so that the stream runs."""
        chunks = iter(self)
        return [next(chunks) for _ in range(n)]

    def close(self):
        self.response.close()
        self.connection.close()
