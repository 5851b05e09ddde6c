"""manager - A small service manager with systemd's notify protocol.

    manager.py LOG [--watchdog SECONDS] [--first NAME=VALUE] [--listen SOCKET]
        -- PROGRAM...

Starts the program with a notify socket, and writes each message to LOG, one a
line with \\n between its variables.  With --watchdog, a program that is ready
and sends no WATCHDOG=1 for so long is killed with SIGABRT and started again
(lines `manager: ...` of LOG).  --first sets a variable for the first start
alone.  --listen passes a listening TCP socket at HOST:PORT as descriptor 3.
SIGTERM and SIGHUP are passed on; after SIGTERM the manager ends with the
program's exit code.  On SIGUSR1 the program is stopped by SIGTERM and started
again.
"""
import argparse
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time


def read_args():
    p = argparse.ArgumentParser()
    p.add_argument("log")
    p.add_argument("--watchdog", type=float, default=0)
    p.add_argument("--first", action="append", default=[])
    p.add_argument("--listen")
    p.add_argument("program", nargs="+")
    return p.parse_args()


class Manager:
    def __init__(self, args):
        self.args = args
        self.log = open(args.log, "a", buffering=1)
        self.folder = tempfile.TemporaryDirectory()
        self.path = self.folder.name + "/notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.ready = self.stopping = self.restarting = False
        self.fed = 0.0
        self.passed = None
        if args.listen:
            host, port = args.listen.rsplit(":", 1)
            self.passed = socket.create_server((host, int(port)))
            self.say("listens at port %d" % self.passed.getsockname()[1])

    def say(self, text):
        self.log.write("manager: %s\n" % text)

    def start(self, more):
        env = dict(os.environ, NOTIFY_SOCKET=self.path)
        env.update(v.split("=", 1) for v in more)
        if self.args.watchdog:
            env["WATCHDOG_USEC"] = str(int(self.args.watchdog * 1e6))
        # $LISTEN_PID is the program's own id, which only it knows.
        own = "WATCHDOG_PID=$$ LISTEN_PID=$$" if self.passed else \
            "WATCHDOG_PID=$$"
        fd = self.passed.fileno() if self.passed else None
        command = ["bash", "-c", "export %s; exec \"$@\"%s" %
                   (own, " 3<&%d" % fd if fd else ""), "-"]
        if self.passed:
            env["LISTEN_FDS"] = "1"
        self.ready = False
        self.child = subprocess.Popen(command + self.args.program, env=env,
                                      pass_fds=(fd,) if fd else ())
        self.say("started %d" % self.child.pid)

    def message(self):
        text = self.socket.recv(4096).decode().rstrip("\n")
        self.log.write(text.replace("\n", "\\n") + "\n")
        lines = text.split("\n")
        if "READY=1" in lines:
            self.ready = True
            self.fed = time.monotonic()
        if "WATCHDOG=1" in lines:
            self.fed = time.monotonic()

    def check(self):
        late = time.monotonic() - self.fed > self.args.watchdog
        if self.args.watchdog and self.ready and late and not (
                self.stopping or self.restarting):
            self.say("killed %d by the watchdog" % self.child.pid)
            self.child.send_signal(signal.SIGABRT)
            self.child.wait()
            self.start([])

    def restart(self, *_):
        self.restarting = True
        self.child.send_signal(signal.SIGTERM)

    def stop(self, *_):
        self.stopping = True
        self.child.send_signal(signal.SIGTERM)

    def run(self):
        self.start(self.args.first)
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGUSR1, self.restart)
        signal.signal(signal.SIGHUP,
                      lambda *_: self.child.send_signal(signal.SIGHUP))
        while True:
            if select.select([self.socket], [], [], 0.05)[0]:
                self.message()
                continue
            self.check()
            if self.child.poll() is not None:
                if not self.restarting:
                    break
                self.restarting = False
                self.start([])
        while select.select([self.socket], [], [], 0)[0]:
            self.message()
        self.say("ended %d with %d" % (self.child.pid, self.child.returncode))
        return self.child.returncode if self.child.returncode >= 0 else 1


if __name__ == "__main__":
    sys.exit(Manager(read_args()).run())
