#!/usr/bin/env python3
"""sluice.py - A client of the router in Python, written from proto/README.md.

    client = Client("tcp://127.0.0.1:7071")
    for chunk in client.generate("Once upon a time", max_tokens=64):
        print(chunk.text.decode(), end="")
    client.close()

A request survives its connection: it resumes with the tokens received so far.
Session.call() and Session.turn() run many calls at once.  A client belongs to
one thread.  It needs python3-zmq, python3-xxhash, python3-protobuf and the
modules that protoc makes of proto/*.proto: README.md."""
import argparse
import collections
import os
import random
import re
import secrets
import struct
import sys
import time

import xxhash
import zmq

sys.path.append(os.environ.get("SLUICE_PROTO") or os.path.join(
    os.path.dirname(os.path.realpath(__file__)), "../../build/release/python"))
from proto import common_pb2 as common  # noqa: E402
from proto import frame_pb2 as wire  # noqa: E402
from proto import health_pb2 as health  # noqa: E402
from proto import inference_pb2 as inference  # noqa: E402
from proto import registry_pb2 as registry  # noqa: E402
from proto import worker_pb2 as worker  # noqa: E402

ROUTER = "tcp://127.0.0.1:7071"
MAGIC, VERSION, GAP = 0x43554C53, 1, 1
HEADER = struct.Struct("<IHHHHIIIQQQQQ")
ENVELOPE = struct.Struct("<QIIHBBI")
WINDOW = 64  # frames sent and not acknowledged
RESEND_S, RESEND_MAX_S, GAP_S = 0.2, 2.0, 0.05
HELLO_S, HELLO_TRIES, QUIET_S, SILENT_S = 0.2, 10, 0.5, 1.5
BACKOFF_S, BACKOFF_MAX_S = 0.02, 1.0
NEVER = float("inf")

Envelope = collections.namedtuple(
    "Envelope", "kind method call body status deadline_ms",
    defaults=(b"", 0, 0))
Frame = collections.namedtuple(
    "Frame", "session number ack flags n_ordered envelopes")


class Lost(Exception):
    """The session is over: no answer, a Goodbye, or silence."""


class Refused(Exception):
    """A call ended with a status that is not OK."""

    def __init__(self, status, body):
        failure = common.Failure.FromString(body)
        self.status, self.retry_after_ms = status, failure.retry_after_ms
        super().__init__(f"{failure.message.decode(errors='replace')} "
                         f"({wire.Status.Name(status)[len('STATUS_'):]})")

    def retryable(self):
        """Returns whether a resumption may be tried again."""
        return self.status == wire.STATUS_UNAVAILABLE or (
            self.retry_after_ms > 0 and self.status in (
                wire.STATUS_ALREADY_EXISTS, wire.STATUS_RESOURCE_EXHAUSTED))


def seal(session, number, ack, flags, ordered, state=()):
    """Returns the bytes of a frame."""
    body = b"".join(
        ENVELOPE.pack(e.call, len(e.body), e.deadline_ms, e.method, e.kind,
                      e.status, 0) + e.body for e in (*ordered, *state))
    head = [MAGIC, VERSION, flags, len(ordered), len(state), len(body), 0, 0,
            session, number, ack, 0]
    checksum = xxhash.xxh3_64_intdigest(HEADER.pack(*head, 0) + body)
    return HEADER.pack(*head, checksum) + body


def parse(data):
    """Returns the Frame in data, None if there is none or it is damaged."""
    if len(data) < HEADER.size:
        return None
    (magic, version, flags, n_ordered, n_state, n, tensor, _, session, number,
     ack, _, checksum) = HEADER.unpack_from(data)
    if (magic, version, tensor, len(data)) != (
            MAGIC, VERSION, 0, HEADER.size + n) or checksum != \
            xxhash.xxh3_64_intdigest(data[:56] + bytes(8) + data[64:]):
        return None
    at, envelopes = HEADER.size, []
    for _ in range(n_ordered + n_state):
        call, n, deadline_ms, method, kind, status, _ = \
            ENVELOPE.unpack_from(data, at)
        at += ENVELOPE.size + n
        envelopes.append(Envelope(kind, method, call, data[at - n:at], status,
                                  deadline_ms))
    return Frame(session, number, ack, flags, n_ordered, envelopes)


class Link:
    """Numbers, acknowledgements and resends of one session.  It touches no
    socket and no clock.  Each of our frames has one envelope."""

    def __init__(self, session):
        self.session, self.sent, self.acked, self.received = session, 0, 0, 0
        self.waiting = collections.deque()  # envelopes in no frame yet
        self.ring = {}  # number: envelope, of the frames not acknowledged
        self.resend_at, self.delay = NEVER, RESEND_S
        self.owes, self.gap, self.gap_at = False, 0, 0

    def frame(self, number, envelopes):
        flags, self.gap, self.owes = self.gap, 0, False
        return seal(self.session, number, self.received, flags, envelopes)

    def due(self, now):
        """Yields the frames to send now: old, new, or an acknowledgement."""
        if now >= self.resend_at:
            self.resend_at = now + self.delay
            self.delay = min(self.delay * 2, RESEND_MAX_S)
            for number, envelope in self.ring.items():
                yield self.frame(number, [envelope])
        while self.waiting and len(self.ring) < WINDOW:
            self.sent += 1
            self.ring[self.sent] = self.waiting.popleft()
            self.resend_at = min(self.resend_at, now + RESEND_S)
            yield self.frame(self.sent, [self.ring[self.sent]])
        if self.owes:
            yield self.frame(0, ())

    def take(self, f, now):
        """Returns the envelopes of a frame that are new."""
        if f.ack > self.acked:
            for number in range(self.acked + 1, f.ack + 1):
                del self.ring[number]
            self.acked, self.delay = f.ack, RESEND_S
            self.resend_at = now + RESEND_S if self.ring else NEVER
        elif f.flags & GAP and self.ring and f.ack == self.acked:
            self.resend_at = now
        if f.number == self.received + 1:
            self.received, self.owes = f.number, True
            return f.envelopes
        if f.number > self.received and now >= self.gap_at:
            self.owes, self.gap, self.gap_at = True, GAP, now + GAP_S
        elif 0 < f.number <= self.received:  # our acknowledgement was lost
            self.owes = True
        return f.envelopes[f.n_ordered:]


class Call:
    """An open call: the replies that have arrived, and its end."""

    def __init__(self, number, reply):
        self.number, self.reply, self.replies = number, reply, []
        self.ended, self.status, self.body = False, wire.STATUS_OK, b""


class Keys:
    """CURVE keys: a certificate with its secret key, and a folder with those
    of routers, which are tried in turn."""

    def __init__(self, key, trust):
        own = self.read(key)
        self.pair = own["public-key"].encode(), own["secret-key"].encode()
        certs = [self.read(os.path.join(trust, f))
                 for f in sorted(os.listdir(trust)) if f.endswith(".cert")]
        self.routers = [c["public-key"].encode() for c in certs
                        if "router" in re.split("[, ]+", c.get("role", ""))]
        if not self.routers:
            raise ValueError(f"{trust} has no certificate of role router")
        self.turn = -1

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as f:
            return dict(re.findall(
                r"""^ +([\w-]+) = ["']?([^"'\n]*)["']?$""", f.read(), re.M))

    def apply(self, socket):
        """With keys a peer sends no heartbeats of ZMTP: TCP's replace them."""
        self.turn += 1
        socket.curve_publickey, socket.curve_secretkey = self.pair
        socket.curve_serverkey = self.routers[self.turn % len(self.routers)]
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 1)


class Session:
    """One connection and its calls.  Raises Lost, once, when it is over."""

    def __init__(self, context, endpoint, name="sluice.py", keys=None):
        self.calls, self.last, self.ping, self.over = {}, 0, None, False
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 200)
        if keys is not None:
            keys.apply(self.socket)
        self.socket.connect(endpoint)
        try:
            self.link = Link(self.hello(endpoint, registry.HelloRequest(
                version_major=1, version_minor=1, role=registry.ROLE_CLIENT,
                nonce=secrets.randbits(64), name=name.encode())))
        except BaseException:
            self.socket.close(0)
            raise
        self.heard = self.asked = time.monotonic()

    def hello(self, endpoint, request):
        """Returns the session's number."""
        data = seal(0, 0, 0, 0, (), [Envelope(
            wire.ENVELOPE_CALL, wire.METHOD_REGISTRY_HELLO, 1,
            request.SerializeToString())])
        for _ in range(HELLO_TRIES):
            self.socket.send(data)
            while self.socket.poll(HELLO_S * 1000):
                f = parse(self.socket.recv())
                if f is None or f.session != 0:
                    continue
                end = f.envelopes[0]
                if end.status != wire.STATUS_OK:
                    raise Refused(end.status, end.body)
                return registry.HelloReply.FromString(end.body).session
        raise Lost(f"no router answers at {endpoint}")

    def call(self, method, request, reply, deadline_ms=0):
        self.last += 1
        call = self.calls[self.last] = Call(self.last, reply)
        self.link.waiting.append(Envelope(
            wire.ENVELOPE_CALL, method, self.last, request.SerializeToString(),
            0, deadline_ms))
        return call

    def drop(self, call):
        """Cancels a call.  No End follows; what is under way is ignored."""
        if self.calls.pop(call.number, None) and not self.over:
            self.link.waiting.append(
                Envelope(wire.ENVELOPE_CANCEL, 0, call.number))
            self.flush(time.monotonic())

    def flush(self, now):
        for data in self.link.due(now):
            self.socket.send(data)

    def ask(self, method, request, reply):
        """Makes a unary call and waits for its reply."""
        call = self.call(method, request, reply)
        while not call.ended:
            self.turn()
        if call.status != wire.STATUS_OK:
            raise Refused(call.status, call.body)
        return reply.FromString(call.body)

    def turn(self, seconds=0.1):
        """Sends, waits at most this long, and receives."""
        now = time.monotonic()
        self.flush(now)
        if self.socket.poll(1000 * max(0, min(seconds,
                                              self.link.resend_at - now))):
            self.receive()
        self.keep_alive(time.monotonic())

    def receive(self):
        while not self.over and self.socket.poll(0):
            f = parse(self.socket.recv())
            if f is not None and f.session == self.link.session:
                self.heard = time.monotonic()
                for e in self.link.take(f, self.heard):
                    self.deliver(e)

    def deliver(self, e):
        call = self.calls.get(e.call)
        if e.kind == wire.ENVELOPE_REPLY and call:
            call.replies.append(call.reply.FromString(e.body))
        elif e.kind == wire.ENVELOPE_END and call:
            del self.calls[e.call]
            call.ended, call.status, call.body = True, e.status, e.body
        elif e.kind == wire.ENVELOPE_CALL:
            self.link.waiting.append(Envelope(
                wire.ENVELOPE_END, e.method, e.call, b"",
                wire.STATUS_UNIMPLEMENTED))
        elif e.method == wire.METHOD_REGISTRY_GOODBYE:
            why = registry.GoodbyeMessage.FromString(e.body).reason
            self.lose(f"Goodbye: {why.decode(errors='replace')}")

    def lose(self, why):
        self.over = True
        raise Lost(why)

    def keep_alive(self, now):
        """With an open call, pings a silent router.  Silence counts only while
        the ping is open, so a pause of our own is no silence."""
        if self.ping and not self.ping.ended:
            if now - max(self.asked, self.heard) > SILENT_S - QUIET_S:
                self.lose(f"no frame for {now - self.heard:.1f} s")
        elif self.calls and now - self.heard > QUIET_S:
            self.asked = now
            self.ping = self.call(wire.METHOD_HEALTH_CHECK, common.Nothing(),
                                  health.HealthReply)

    def close(self):
        if not self.over:
            self.socket.send(seal(
                self.link.session, 0, self.link.received, 0, (),
                [Envelope(wire.ENVELOPE_ONEWAY, wire.METHOD_REGISTRY_GOODBYE,
                          0)]))
        self.socket.close()


class Client:
    """Requests that survive their connection."""

    def __init__(self, endpoint=ROUTER, name="sluice.py", key=None,
                 trust=None):
        """key, trust: a file and a folder as sluicectl keygen makes them."""
        self.endpoint, self.name = endpoint, name
        self.keys = Keys(key, trust) if key and trust else None
        self.context, self.session = zmq.Context(), None
        self.n_resumes = 0

    def up(self):
        """Returns the session; makes one if there is none."""
        if self.session is not None and self.session.over:
            self.close()
        if self.session is None:
            self.session = Session(self.context, self.endpoint, self.name,
                                   self.keys)
        return self.session

    def close(self):
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def stream(self, request):
        """Yields the chunks of one call of Generate.  Left early, it cancels
        the call."""
        session = self.up()
        call = session.call(wire.METHOD_INFERENCE_GENERATE, request,
                            inference.GenerateChunk)
        try:
            while not call.ended:
                session.turn()
                replies, call.replies = call.replies, []
                yield from replies
        finally:
            session.drop(call)
        if call.status != wire.STATUS_OK:
            raise Refused(call.status, call.body)

    def generate(self, text, request_id=None, resume_s=30, **fields):
        """Yields the GenerateChunks of a request, each token once; fields are
        those of GenerateRequest.  Resumes for up to resume_s after a loss."""
        request = inference.GenerateRequest(
            request_id=request_id or secrets.token_bytes(16),
            model=fields.pop("model", b""), text=text.encode(), **fields)
        have = [Have() for _ in range(request.n)]
        lost_at, delay = None, BACKOFF_S
        while True:
            try:
                for chunk in self.stream(request):
                    lost_at, delay = None, BACKOFF_S
                    have[chunk.choice].take(chunk)
                    yield chunk
                return
            except (Lost, Refused) as e:
                if isinstance(e, Refused) and (lost_at is None or
                                               not e.retryable()):
                    raise
                now = time.monotonic()
                if lost_at is None:
                    lost_at, self.n_resumes = now, self.n_resumes + 1
                if now - lost_at > resume_s:
                    raise
                wait_s = max(delay, getattr(e, "retry_after_ms", 0) / 1000)
            if all(h.ended for h in have):
                return  # only the End is missing
            time.sleep(wait_s * random.uniform(0.5, 1))
            delay = min(delay * 2, BACKOFF_MAX_S)
            request.have_count[:] = [len(h.tokens) for h in have]
            request.have_tokens[:] = sum((h.tokens for h in have), [])
            request.have_text[:] = [h.n_text for h in have]
            request.have_ended[:] = [h.ended for h in have]

    def cancel(self, request_id):
        """Cancels a request, of this client or of another.  Returns its
        Receipt when its memory is free."""
        return self.up().ask(
            wire.METHOD_INFERENCE_CANCEL, worker.CancelRequest(
                sequence=common.SequenceRef(request_id=request_id)),
            common.Receipt)


class Have:
    """The part of one choice that has arrived."""

    def __init__(self):
        self.tokens, self.n_text, self.ended = [], 0, False

    def take(self, chunk):
        if chunk.tokens and chunk.first_index != len(self.tokens):
            raise ValueError(f"tokens from index {chunk.first_index}, expected "
                             f"{len(self.tokens)}")
        self.tokens += chunk.tokens
        self.n_text += len(chunk.text)
        self.ended = chunk.finish != common.FINISH_RUNNING


def generate(client, o):
    sampling = common.Sampling(ignore_eos=o.ignore_eos,
                               temperature=o.temperature)
    for chunk in client.generate(o.prompt, o.request_id,
                                 max_tokens=o.max_tokens, sampling=sampling):
        sys.stdout.buffer.write(chunk.text)
        sys.stdout.flush()
    print()
    if client.n_resumes:
        times = "once" if client.n_resumes == 1 else f"{client.n_resumes} times"
        print(f"sluice.py: resumed {times}", file=sys.stderr)


def cancel(client, o):
    r = client.cancel(o.request_id)
    print(f"was in {common.SequenceState.Name(r.state)[len('SEQUENCE_'):]}, "
          f"{r.n_generated} tokens generated, {r.blocks} blocks released")


def main():
    p = argparse.ArgumentParser(description="A client of a sluice router.")
    p.add_argument("--router", default=os.environ.get("SLUICE_ROUTER", ROUTER))
    p.add_argument("--key", default=os.environ.get("SLUICE_KEY"))
    p.add_argument("--trust", default=os.environ.get("SLUICE_TRUST"))
    verbs = p.add_subparsers(required=True)
    g = verbs.add_parser("generate", help="complete a prompt")
    g.set_defaults(run=generate)
    g.add_argument("prompt")
    g.add_argument("--max-tokens", type=int, default=256)
    g.add_argument("--temperature", type=float, default=1.0)
    g.add_argument("--ignore-eos", action="store_true")
    g.add_argument("--request-id", type=bytes.fromhex, help="32 hex digits")
    c = verbs.add_parser("cancel", help="cancel a request")
    c.set_defaults(run=cancel)
    c.add_argument("request_id", type=bytes.fromhex, help="32 hex digits")
    o = p.parse_args()
    client = Client(o.router, key=o.key, trust=o.trust)
    try:
        o.run(client, o)
    except (Lost, Refused, ValueError) as e:
        sys.exit(f"sluice.py: {e}")
    finally:
        client.close()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
