"""The load: fault_load, which compares streams with recorded ones."""
import json
import os
import signal
import subprocess

from daemons import PATIENCE_S, Failed, await_true, on_start


class Streams:
    """A running load; its output is read as it arrives."""

    count = 0

    def __init__(self, cluster, reference, streams=32, seed=1, longest=400,
                 cancel=0, patience=PATIENCE_S, at=None):
        Streams.count += 1
        self.path = os.path.join(cluster.folder, f"load.{Streams.count}")
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen(
                [cluster.program("fault_load", True), at or cluster.clients_at,
                 "--check", reference, "--streams", str(streams), "--seed",
                 str(seed), "--longest", str(longest), "--cancel", str(cancel),
                 "--patience", str(patience)],
                stdin=subprocess.PIPE, stdout=out, env=cluster.env,
                preexec_fn=on_start(()))
        self.file, self.part = open(self.path, "rb"), b""
        self.gaps, self.ends, self.progress, self.summary = [], [], {}, None
        self.patience, self.marks = patience, 0

    def read(self):
        *lines, self.part = (self.part + self.file.read()).split(b"\n")
        for line in lines:
            what = json.loads(line)
            if "gap" in what:
                self.gaps.append(what)
            elif "end" in what:
                self.ends.append(what)
            elif "progress" in what:
                self.progress = what
            else:
                self.summary = what
        return self

    def say(self, line):
        try:
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed("the load exited early") from None

    def mark(self):
        self.marks += 1
        self.say(b"mark")

    def await_tokens(self, more=1):
        at = self.read().progress.get("tokens", 0)
        await_true("tokens arrive", lambda: self.read().progress.get(
            "tokens", 0) >= at + more or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise Failed("the load exited early")

    def await_all(self):
        """Waits until each stream has a token since the mark, or has ended."""
        marked = self.marks
        await_true("all streams run", lambda: self.process.poll() is not None
                   or (self.read().progress.get("marks") == marked and
                       self.progress["behind"] == 0))

    def stop(self):
        """Lets open requests complete; returns the summary."""
        self.say(b"stop")
        try:
            self.process.wait(2 * self.patience)
        except subprocess.TimeoutExpired:
            raise Failed("the load did not stop") from None
        self.read().close()
        if self.summary is None:
            raise Failed(f"the load exited with {self.process.returncode}")
        return self.summary

    def close(self):
        self.process.stdin.close()
        self.file.close()

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        if not self.file.closed:
            self.close()


def record(cluster, path, longest):
    """Records the streams of an undisturbed cluster."""
    p = subprocess.run([cluster.program("fault_load", True),
                        cluster.clients_at, "--record", path, "--streams", "8",
                        "--longest", str(longest)],
                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       text=True, check=False, env=cluster.env,
                       preexec_fn=on_start(()))
    if p.returncode != 0:
        raise Failed(f"cannot record the streams: {p.stderr}")
