"""A load of HTTP streams that are compared with undisturbed answers."""
import http.client
import json
import random
import threading
import time

from daemons import PATIENCE_S, Failed

ASK_AGAIN_S = 0.05  # between attempts to connect
SILENT_S = PATIENCE_S  # a stream that receives nothing for so long is lost

WORDS = ("the", "river", "a", "stone", "winter", "who", "sang", "of", "seven",
         "small", "lights", "\u00e9t\u00e9", "and", "42", "\u96e8", "again")


def requests_of(seed, n, longest):
    """Returns n requests, greedy and seeded, of both endpoints."""
    rng = random.Random(seed)
    return [request(rng, i, longest) for i in range(n)]


def request(rng, i, longest):
    words = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 24)))
    body = {"model": "tiny-hybrid", "stream": True, "ignore_eos": i % 4 != 3,
            "max_tokens": rng.randint(longest // 2, longest),
            "temperature": 0 if i % 2 == 0 else 0.9, "seed": 1000 + i}
    if i % 3 == 2:
        return "/v1/completions", {**body, "prompt": words, "logprobs": 2}
    if i % 3 == 1:
        body.update(logprobs=True, top_logprobs=2)
    return "/v1/chat/completions", {
        **body, "messages": [{"role": "user", "content": words}]}


class Answer:
    """A streamed answer, joined."""

    def __init__(self):
        self.text, self.logprobs, self.finish = "", [], None
        self.over = False  # its [DONE] has arrived
        self.n_events = 0

    def add(self, data):
        """Adds the payload of an event."""
        if data == b"[DONE]":
            self.over = True
            return
        event = json.loads(data)
        if "error" in event:
            raise Failed(f"error in a stream: {event['error']['message']}")
        for choice in event["choices"]:
            delta = choice.get("delta", choice)
            self.text += delta.get("content") or delta.get("text") or ""
            self.logprobs += values_of(choice.get("logprobs"))
            self.finish = choice["finish_reason"] or self.finish
        self.n_events += 1

    def begins(self, whole):
        """Returns whether this may become the answer `whole`."""
        return (whole.text.startswith(self.text) and
                whole.logprobs[:len(self.logprobs)] == self.logprobs and
                self.finish in (None, whole.finish))

    def equals(self, whole):
        return (self.over and self.text == whole.text and
                self.logprobs == whole.logprobs and
                self.finish == whole.finish)


def values_of(logprobs):
    """Returns the tokens and logprobs of a chunk, of either endpoint."""
    if not logprobs:
        return []
    if "content" in logprobs:
        return [(t["token"], t["logprob"]) for t in logprobs["content"] or []]
    return list(zip(logprobs["tokens"], logprobs["token_logprobs"]))


class Cut(Failed):
    """The connection ended before the answer."""


def ask(port, what, answer, on_event=lambda: None):
    """Sends a request and adds its stream to the answer.  Raises Cut."""
    path, body = what
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port,
                                                timeout=SILENT_S)
        try:
            connection.request("POST", path, json.dumps(body),
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
            if reply.status != 200:
                raise Failed(f"{path}: {reply.status}: {reply.read(500)}")
            while not answer.over:
                line = reply.readline()
                if not line.endswith(b"\n"):
                    raise Cut("the stream ended early")
                if line.startswith(b"data: "):
                    answer.add(line[6:].strip())
                    on_event()
        finally:
            connection.close()
    except TimeoutError:
        raise Failed(f"{path}: nothing within {SILENT_S} s") from None
    except (OSError, http.client.HTTPException) as e:
        raise Cut(repr(e)) from e


class Stream(threading.Thread):
    """Sends requests one after the other until the load stops."""

    def __init__(self, load, number):
        super().__init__(daemon=True)
        self.load, self.rng = load, random.Random(f"{load.seed} {number}")
        self.mark, self.last = 0, time.monotonic()

    def run(self):
        try:
            while not self.load.stopping:
                which = self.rng.randrange(len(self.load.requests))
                deaths = self.whole(self.load.requests[which],
                                    self.load.wanted[which])
                self.load.count("whole")
                if deaths:
                    self.load.count("through a death")
        except Failed as e:
            self.load.fail(str(e))
        except Exception as e:  # of a thread: the load reports it
            self.load.fail(repr(e))

    def whole(self, what, wanted):
        """Asks until an answer is complete.  Only the death of the gateway
        may cut an answer.  Returns the deaths that the answer survived."""
        since = None
        while True:
            life, up = self.load.life, self.load.gateway_is_up
            deaths = self.load.deaths
            answer = Answer()
            try:
                ask(self.load.port, what, answer, self.on_event)
            except Cut as e:
                if not answer.begins(wanted):
                    raise Failed(f"{what}: differs: {answer.text!r}") from None
                if up and life == self.load.life:
                    raise Failed("cut, although no gateway died: "
                                 f"{e}") from None
                if answer.n_events or since is None:
                    since = time.monotonic()
                if time.monotonic() > since + PATIENCE_S:
                    raise Failed(f"no gateway within {PATIENCE_S} s: "
                                 f"{e}") from None
                self.load.count("asked again")
                time.sleep(ASK_AGAIN_S)
                continue
            if not answer.equals(wanted):
                raise Failed(f"{what}: {answer.text!r} ({answer.finish}) is "
                             f"not {wanted.text!r} ({wanted.finish})")
            return self.load.deaths - deaths

    def on_event(self):
        now = time.monotonic()
        self.load.pause(now - self.last)
        self.last, self.mark = now, self.load.marks


class Load:
    """Streams in threads.  The caller notes each death of the gateway in
    `life` and `gateway_is_up`, and of other daemons in `deaths`."""

    def __init__(self, port, seed, longest, n_requests=24):
        self.port, self.seed = port, seed
        self.requests = requests_of(seed, n_requests, longest)
        self.wanted, self.streams = [], []
        self.life, self.gateway_is_up, self.deaths = 0, True, 0
        self.marks, self.stopping = 0, False
        self.lock, self.counts, self.failures = threading.Lock(), {}, []
        self.longest_pause = 0

    def record(self):
        """Asks for each answer once, undisturbed; also without streaming."""
        for what in self.requests:
            answer = Answer()
            ask(self.port, what, answer)
            if not answer.finish or not answer.text:
                raise Failed(f"{what}: an empty answer")
            self.wanted.append(answer)
        self.compare(self.requests[0], self.wanted[0])

    def compare(self, what, wanted):
        path, body = what
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=SILENT_S)
        connection.request("POST", path, json.dumps({**body, "stream": False}),
                           {"Content-Type": "application/json"})
        choice = json.load(connection.getresponse())["choices"][0]
        connection.close()
        if choice["message"]["content"] != wanted.text:
            raise Failed(f"{what}: the stream differs from the answer "
                         "without streaming")

    def start(self, n):
        self.streams = [Stream(self, i) for i in range(n)]
        for stream in self.streams:
            stream.start()

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def pause(self, seconds):
        self.longest_pause = max(self.longest_pause, seconds)

    def fail(self, why):
        with self.lock:
            self.failures.append(why)

    def figures(self):
        """Returns the counts in words."""
        whole, through, again = (self.counts.get(name, 0) for name in (
            "whole", "through a death", "asked again"))
        return (f"{whole} answers whole, {through} of them through the death "
                f"of a router or worker, {again} requests repeated, longest "
                f"pause {self.longest_pause:.1f} s")

    def all_run(self):
        """Returns whether each stream has an event since the last mark, or
        has failed."""
        return all(s.mark == self.marks or not s.is_alive()
                   for s in self.streams)

    def stop(self):
        """Lets the open answers end."""
        self.stopping = True
        for stream in self.streams:
            stream.join(SILENT_S)
            if stream.is_alive():
                self.fail("a stream did not end")
