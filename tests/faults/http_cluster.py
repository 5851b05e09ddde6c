"""A cluster with a gateway, which always has the same port."""
import os

import daemons
from daemons import Failed, await_true


class Cluster(daemons.Cluster):
    """The gateway's log is one of the others'."""

    def __init__(self, build, folder, rng):
        super().__init__(build, folder, rng)
        self.rng, self.port = rng, daemons.free_port(rng)
        self.gateway = None

    def start_gateway(self):
        self.gateway = self.daemon("gateway", [
            self.program("sluice-gateway"), "--router", self.clients_at,
            "--listen", f"127.0.0.1:{self.port}", "--model",
            f"tiny-hybrid={daemons.MODEL}"])
        out = self.gateway.path[:-4] + ".out"
        await_true("the gateway is ready", lambda: os.path.getsize(out) > 0
                   or not self.gateway.alive())
        if not self.gateway.alive():
            raise Failed("no gateway: " + daemons.tail(self.gateway))
        self.others = [self.gateway]
