#!/usr/bin/env python3
"""attacks.py KIND ENDPOINT [ARGUMENTS...] - Attacks on a port with CURVE keys.

  none ENDPOINT                 peers without a key
  server ENDPOINT KEY           a trusted key, a wrong key of the server
  key ENDPOINT KEY CERT         the key of a certificate; prints the outcome
  replay ENDPOINT COMMAND...    records the bytes of COMMAND, which connects to
                                the endpoint AT, and sends them again
  parts ENDPOINT KEY CERT PID   unfinished messages after a handshake
  flood ENDPOINT CERT N SECONDS handshakes that are never finished

KEY is a secret certificate, CERT the public one of the server.  The exit code
is 0 if the attack failed."""
import ctypes
import os
import re
import resource
import secrets
import socket
import subprocess
import sys
import threading
import time

try:
    import zmq
    import zmq.utils.monitor
except ImportError:  # a flood does without
    zmq = None

PATIENCE = float(os.environ.get("SLUICE_PATIENCE", "300"))
TRIES = 20
REPLAYS = 50
PARTS_BYTES = 256 << 20  # sent by one peer, if nobody stops it
GROWTH = 64 << 20
GREETING = (b"\xff" + bytes(7) + b"\x01\x7f\x03\x01" +
            b"CURVE".ljust(20, b"\0") + bytes(32))
HELLO_BYTES = 200
Z85 = (b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
       b".-:+=^!/*?&<>()[]{}@%$#")


def key_of(path, name):
    with open(path) as f:
        return re.search(rf'{name} = "(.*)"', f.read())[1].encode()


def address(endpoint):
    m = re.fullmatch(r"tcp://(.*):(\d+)", endpoint)
    return m[1].strip("[]"), int(m[2])


def connect(endpoint):
    s = socket.create_connection(address(endpoint), timeout=PATIENCE)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def outcome(context, endpoint, secret=None, server=None):
    """Connects a DEALER once.  Returns what its monitor reports."""
    s = context.socket(zmq.DEALER)
    s.linger = 0
    s.reconnect_ivl = -1
    if secret is not None:
        s.curve_publickey = key_of(secret, "public-key")
        s.curve_secretkey = key_of(secret, "secret-key")
        s.curve_serverkey = server
    monitor = s.get_monitor_socket()
    s.connect(endpoint)
    end = time.monotonic() + PATIENCE
    names = {zmq.EVENT_HANDSHAKE_SUCCEEDED: "accepted",
             zmq.EVENT_HANDSHAKE_FAILED_AUTH: "refused",
             zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "refused",
             zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "refused",
             zmq.EVENT_DISCONNECTED: "refused"}
    result = "silence"
    while result == "silence" and time.monotonic() < end:
        if monitor.poll(1000):
            event = zmq.utils.monitor.recv_monitor_message(monitor)["event"]
            result = names.get(event, result)
    s.disable_monitor()
    return result, s


def expect_refused(context, endpoint, *keys):
    for _ in range(TRIES):
        result, s = outcome(context, endpoint, *keys)
        s.close()
        if result != "refused":
            sys.exit(f"{result}, expected refused")
    print(f"refused {TRIES} times")


def none(endpoint):
    with zmq.Context() as context:
        expect_refused(context, endpoint)


def server(endpoint, secret):
    wrong, _ = zmq.curve_keypair()
    with zmq.Context() as context:
        expect_refused(context, endpoint, secret, wrong)


def key(endpoint, secret, cert):
    with zmq.Context() as context:
        expect_refused(context, endpoint, secret, key_of(cert, "public-key"))


class Recorder:
    """Forwards one connection, and keeps the bytes of its client."""

    def __init__(self, endpoint):
        self.endpoint, self.parts = endpoint, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        down, _ = self.listener.accept()
        up = connect(self.endpoint)
        threading.Thread(target=self.copy, args=(up, down, None),
                         daemon=True).start()
        self.copy(down, up, self.parts)

    @staticmethod
    def copy(source, sink, kept):
        try:
            while data := source.recv(65536):
                if kept is not None:
                    kept.append(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def replay(endpoint, *command):
    recorder = Recorder(endpoint)
    argv = [recorder.at if word == "AT" else word for word in command]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL,
                   timeout=PATIENCE)
    recorded = b"".join(recorder.parts)
    head = len(GREETING) + 2 + HELLO_BYTES
    if len(recorded) <= head:
        sys.exit(f"recorded {len(recorded)} bytes, expected a handshake")
    for _ in range(REPLAYS):
        s = connect(endpoint)
        got = 0
        try:
            s.sendall(recorded[:head])
            s.sendall(recorded[head:])
            while data := s.recv(65536):
                got += len(data)
        except ConnectionError:
            pass
        except TimeoutError:
            sys.exit("a replayed handshake stays open")
        s.close()
    print(f"{REPLAYS} replays of {len(recorded)} bytes, all closed")


def resident(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) << 10


def parts(endpoint, secret, cert, pid):
    """A peer with a good key sends the parts of a message without end."""
    before = resident(pid)
    with zmq.Context() as context:
        result, s = outcome(context, endpoint, secret,
                            key_of(cert, "public-key"))
        if result != "accepted":
            sys.exit(f"a good key is {result}")
        s.sndtimeo = 1000
        # libzmq frees the address of the first monitor later.
        monitor = s.get_monitor_socket(addr="inproc://parts")
        piece, sent = bytes(512), 0
        while sent < PARTS_BYTES and not monitor.poll(0):
            try:
                s.send(piece, zmq.SNDMORE)
                sent += len(piece)
            except zmq.Again:
                break
        s.send(piece)  # libzmq sends nothing of a message before its end
        ended = monitor.poll(int(PATIENCE * 1000))
        grown = resident(pid) - before
        s.disable_monitor()
        s.close()
    print(f"ended after {sent >> 10} KiB, grown by {grown >> 20} MiB")
    if not ended or grown > GROWTH:
        sys.exit(1)


def z85_decoded(text):
    """Five characters are four bytes, as ZeroMQ's RFC 32 has them."""
    values = [Z85.index(c) for c in text]
    groups = zip(*[iter(values)] * 5)
    return b"".join(sum(v * 85 ** (4 - i) for i, v in enumerate(g)).to_bytes(
        4, "big") for g in groups)


def hello(cert):
    """A HELLO with a box that the server opens: the dearest for it."""
    sodium = ctypes.CDLL("libsodium.so.23")
    public, secret = (ctypes.create_string_buffer(32) for _ in range(2))
    sodium.crypto_box_keypair(public, secret)
    short = secrets.token_bytes(8)
    box = ctypes.create_string_buffer(80)
    sodium.crypto_box_easy(box, bytes(64), ctypes.c_ulonglong(64),
                           b"CurveZMQHELLO---" + short,
                           z85_decoded(key_of(cert, "public-key")), secret)
    body = (b"\x05HELLO\x01\x00" + bytes(72) + public.raw + short + box.raw)
    return b"\x04" + bytes([len(body)]) + body


def flood(endpoint, cert, n, seconds):
    """n connections at once, made anew as they are closed."""
    n, end = int(n), time.monotonic() + float(seconds)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    n = min(n, hard - 64)
    text = GREETING + hello(cert)
    done, made, answered = 0, 0, 0
    lock = threading.Lock()

    def come(most):
        nonlocal made, answered
        own = []
        while time.monotonic() < end:
            try:
                s = connect(endpoint)
                s.sendall(text)
                s.setblocking(False)
            except OSError:
                time.sleep(0.01)
                continue
            own.append(s)
            with lock:
                made += 1
            if len(own) >= most:
                first = own.pop(0)
                try:
                    answered += len(first.recv(4096)) > len(GREETING)
                except OSError:
                    pass
                first.close()
        for s in own:
            s.close()

    threads = [threading.Thread(target=come, args=(n // 8,))
               for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"{made} handshakes begun, up to {n} at once")
    if made < n:
        print("fewer than asked for", file=sys.stderr)


if __name__ == "__main__":
    {"none": none, "server": server, "key": key, "replay": replay,
     "parts": parts, "flood": flood}[sys.argv[1]](*sys.argv[2:])
