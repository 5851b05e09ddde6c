"""Hosts of a cluster: network namespaces on one switch, and keys."""
import os
import shutil
import subprocess
import sys

INSIDE = "SLUICE_FAULTS_NETNS"
ADMIN = "10.77.0.254"  # the load, the proxy, sluicectl
TABLE = "faults"
CABLE = "eth0"


class Skipped(Exception):
    """Network namespaces cannot be made here."""


def enter():
    """Runs this program again in a network of its own, if it is not there."""
    words = ["unshare", "--net", "--mount", "--propagation", "private"]
    if os.environ.get(INSIDE) == str(os.getppid()):
        run("ip", "link", "set", "lo", "up")
        return
    if os.getuid() != 0:
        words.append("--map-root-user")
    for needed in (words + ["ip", "link", "add", "cable", "type", "veth",
                            "peer", "name", "end"], ["nft", "--version"]):
        try:
            p = subprocess.run(needed, stdin=subprocess.DEVNULL, check=False,
                               capture_output=True)
        except FileNotFoundError:
            raise Skipped(f"{needed[0]} is missing") from None
        if p.returncode != 0:
            raise Skipped("network namespaces cannot be made here (root or "
                          "user namespaces, iproute2 and veth are needed)")
    os.environ[INSIDE] = str(os.getppid())
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


def run(*words, text=None):
    subprocess.run(words, check=True, input=text, text=True,
                   stdout=subprocess.DEVNULL)


class Network:
    """The hosts of one process, at 10.77.0.1, 2, ...; the process itself is at
    ADMIN."""

    def __init__(self, folder):
        self.folder, self.numbers = folder, {}
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "link", "set", "switch", "up")
        run("ip", "address", "add", ADMIN + "/24", "dev", "switch")

    def host(self, name):
        """Makes a host, unless there is one of that name; returns the words
        before a command that runs there."""
        path = os.path.join(self.folder, name + ".net")
        words = ["nsenter", "--net=" + path]
        if name in self.numbers:
            return words
        n = self.numbers[name] = len(self.numbers) + 1
        open(path, "wb").close()
        run("unshare", "--net=" + path, "true")
        run("ip", "link", "add", f"to-{n}", "type", "veth", "peer", "name",
            CABLE, "netns", path)
        run("ip", "link", "set", f"to-{n}", "master", "switch", "up")
        run(*words, "ip", "link", "set", "lo", "up")
        run(*words, "ip", "link", "set", CABLE, "up")
        run(*words, "ip", "address", "add", self.address(name) + "/24", "dev",
            CABLE)
        return words

    def address(self, name):
        self.host(name)
        return f"10.77.0.{self.numbers[name]}"

    def lose(self, name, way):
        """Loses what a host sends (up), what it receives (down), or both."""
        self.heal(name)
        rules = "".join(
            f"chain {w} {{ type filter hook {hook} priority 0; {at} {CABLE} "
            "drop; }\n" for w, hook, at in (("up", "output", "oifname"),
                                            ("down", "input", "iifname"))
            if way in (w, "both"))
        run(*self.host(name), "nft", "-f", "-",
            text=f"table inet {TABLE} {{\n{rules}}}\n")

    def heal(self, name):
        run(*self.host(name), "nft", "-f", "-",
            text=f"table inet {TABLE} {{}}\ndelete table inet {TABLE}\n")

    def close(self):
        for name in self.numbers:
            subprocess.run(["umount", os.path.join(self.folder,
                                                   name + ".net")],
                           check=False, stderr=subprocess.DEVNULL)


class Keys:
    """Keys of the daemons and of an administrator; all trust each other."""
    ROLES = {"router": "router", "admin": "admin",
             **{f"w{i}": "worker" for i in range(4)}}

    def __init__(self, folder, sluicectl):
        self.keys = os.path.join(folder, "keys")
        self.trust = os.path.join(folder, "trust")
        os.mkdir(self.trust)
        for name, role in self.ROLES.items():
            run(sluicectl, "keygen", name, "--role", role, "--dir", self.keys)
            shutil.copy(self.key(name)[:-4] + ".cert", self.trust)

    def key(self, name):
        return os.path.join(self.keys, name + ".key")

    def words(self, name):
        return ["--key", self.key(name), "--trust", self.trust]

    def environment(self):
        """Returns the variables of sluicectl and the load."""
        return {"SLUICE_KEY": self.key("admin"), "SLUICE_TRUST": self.trust}
