"""check.py OBJECTS... - Checks what no schema can: that the Kubernetes objects of
a JSON file fit each other and the programs.  SLUICE_BIN holds the programs."""
import json
import os
import re
import subprocess
import sys

BIN = os.environ["SLUICE_BIN"]
PROGRAMS = {"sluice-worker": "sluice-worker",
            "sluice-worker-opencl": "sluice-worker"}
wrong = []


def expect(what, condition):
    if not condition:
        wrong.append(what)


def name(o):
    return f"{o['kind']} {o['metadata']['name']}"


def matches(selector, labels):
    """A LabelSelector of the forms that the manifests use."""
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for e in selector.get("matchExpressions", []):
        assert e["operator"] == "In", e
        if labels.get(e["key"]) not in e["values"]:
            return False
    return True


class Cluster:
    def __init__(self, objects):
        self.objects = objects
        self.sets = self.of("Deployment") + self.of("StatefulSet")

    def of(self, kind):
        return [o for o in self.objects if o["kind"] == kind]

    def has(self, kind, wanted, key=None):
        return any(o["metadata"]["name"] == wanted and
                   (key is None or key in o.get("data", {}))
                   for o in self.of(kind))

    def pods(self, selector):
        """Deployments and StatefulSets whose pods the selector matches."""
        return [s for s in self.sets
                if matches(selector,
                           s["spec"]["template"]["metadata"]["labels"])]


def container(s):
    (c,) = s["spec"]["template"]["spec"]["containers"]
    return c


def ports(s):
    return {p["name"]: p["containerPort"] for p in container(s)["ports"]}


def milliseconds(text):
    n, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(n) * {"ms": 1, "s": 1000, "m": 60000, "h": 3600000}[unit]


def program(c):
    """The program that a container runs: its command, or the image's."""
    image = re.sub(r"^.*/|:[^:/]*$", "", c["image"])
    if "command" in c:
        return c["command"][0]
    return PROGRAMS.get(image)


HELP = {}


def options(prog):
    """--name of the program's --help, and whether it takes a value."""
    if prog not in HELP:
        text = subprocess.run([os.path.join(BIN, prog), "--help"], check=True,
                              capture_output=True, text=True).stdout
        text = text.split("\nexamples:")[0]
        HELP[prog] = {m[1]: m[2] is not None for m in
                      re.finditer(r"^ +(--[a-z-]+)( [A-Z][^ ]*)?", text, re.M)}
    return HELP[prog]


def arguments(c):
    return dict((a.split("=", 1) + [""])[:2] for a in c["args"])


def check_arguments(s, c):
    prog, env = program(c), {e["name"] for e in c.get("env", [])}
    expect(f"{name(s)}: runs {prog}, which is no program of sluice",
           prog in ("sluice-router", "sluice-gateway", "sluice-worker"))
    for a in c["args"]:
        option, equals, value = a.partition("=")
        if option not in options(prog):
            wrong.append(f"{name(s)}: {prog} has no option {option}")
            continue
        expect(f"{name(s)}: {option} takes {'a' if options(prog)[option] else 'no'}"
               " value", options(prog)[option] == (equals == "="))
        for used in re.findall(r"\$\((\w+)\)", value):
            expect(f"{name(s)}: $({used}) is in no env", used in env)
    expect(f"{name(s)}: an option is there twice",
           len(arguments(c)) == len(c["args"]) or prog != "sluice-worker")


# What kubelet would write for each variable.
VALUES = {"MODEL": "some-model", "POD_NAME": "pod-0", "POD_IP": "10.1.2.3",
          "CPUS": "4"}


def check_values(s, c):
    """The program accepts the command line, and the values are in force."""
    args = [re.sub(r"\$\((\w+)\)", lambda m: VALUES.get(m[1], ""), a)
            for a in c["args"]]
    p = subprocess.run([os.path.join(BIN, program(c)), *args, "--print-config"],
                       capture_output=True, text=True, env={})
    expect(f"{name(s)}: {p.stderr.strip()}", p.returncode == 0)
    expect(f"{name(s)}: not all options are in force",
           p.stdout.count("# command line") >= len(args) - 1)


def check_paths(s, c):
    """Each path in an argument is under a mount, and each mount has a volume."""
    spec = s["spec"]["template"]["spec"]
    volumes = {v["name"] for v in spec["volumes"]}
    mounts = {m["mountPath"]: m for m in c["volumeMounts"]}
    expect(f"{name(s)}: volumes {volumes} are not those that are mounted",
           {m["name"] for m in mounts.values()} == volumes)
    for value in arguments(c).values():
        path = re.sub(r"^.*?=", "", value)
        if path.startswith("/"):
            expect(f"{name(s)}: {path} is on no volume",
                   any(path == m or path.startswith(m + "/") for m in mounts))
    for at in ("/etc/sluice/keys", "/etc/sluice/trust", "/models"):
        expect(f"{name(s)}: {at} is not read-only",
               mounts.get(at, {}).get("readOnly") is True)


def check_security(s, c):
    spec = s["spec"]["template"]["spec"]
    pod, own = spec["securityContext"], c["securityContext"]
    for what, good in {
            "has a service account's token":
                spec["automountServiceAccountToken"] is False,
            "gets options from the environment of Services":
                spec["enableServiceLinks"] is False,
            "may run as root": pod["runAsNonRoot"] is True and
            pod["runAsUser"] > 0 and pod["runAsGroup"] > 0,
            "cannot read its keys": pod["fsGroup"] == pod["runAsGroup"],
            "has no seccomp profile":
                pod["seccompProfile"]["type"] == "RuntimeDefault",
            "may gain privileges": own["allowPrivilegeEscalation"] is False,
            "may write to its root": own["readOnlyRootFilesystem"] is True,
            "has capabilities": own["capabilities"] == {"drop": ["ALL"]},
            "uses something of its host": not any(
                spec.get(k) for k in ("hostNetwork", "hostPID", "hostIPC")) and
            not any("hostPort" in p for p in c["ports"]) and
            not any("hostPath" in v for v in spec["volumes"]),
            "has no limit of memory": "memory" in c["resources"]["limits"],
            "has no requests": {"cpu", "memory"} <= set(
                c["resources"]["requests"]),
            "uses an image without a version": re.search(
                r":[0-9][^:/]*$", c["image"]) is not None,
    }.items():
        expect(f"{name(s)} {what}", good)


def check_times(s, c):
    """The last resort, SIGKILL, comes after the program's own grace."""
    grace = arguments(c).get("--grace")
    pause = c.get("lifecycle", {}).get("preStop", {}).get(
        "sleep", {}).get("seconds", 0)
    given = s["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    if program(c) == "sluice-router":
        expect(f"{name(s)}: --grace of a router", grace is None)
    elif grace is None:
        wrong.append(f"{name(s)} has no --grace")
    else:
        expect(f"{name(s)}: terminationGracePeriodSeconds {given} is less than "
               f"preStop {pause} s, --grace {grace} and 10 s",
               given * 1000 >= pause * 1000 + milliseconds(grace) + 10000)


def check_ports(s, c):
    """Ports that the arguments open, that the container declares, and that the
    probes ask, are the same."""
    opened = set()
    for option in ("--workers", "--clients", "--admins", "--listen",
                   "--metrics", "--stage-listen"):
        value = arguments(c).get(option)
        if value is not None:
            opened.add(int(value.rsplit(":", 1)[1]))
            expect(f"{name(s)}: {option} {value} is not open to other pods",
                   "0.0.0.0" in value)
    expect(f"{name(s)}: opens {opened}, declares {ports(s)}",
           opened == set(ports(s).values()))
    for probe, path in (("startupProbe", "/live"), ("livenessProbe", "/live"),
                        ("readinessProbe", "/ready")):
        get = c[probe]["httpGet"]
        expect(f"{name(s)}: {probe} asks {get['path']}", get["path"] == path)
        expect(f"{name(s)}: {probe} asks port {get['port']}",
               ports(s).get(get["port"]) == ports(s)["metrics"])


def check_references(cluster, s, c):
    spec = s["spec"]["template"]["spec"]
    for v in spec["volumes"]:
        for kind, field, key in (("Secret", "secret", "secretName"),
                                 ("ConfigMap", "configMap", "name"),
                                 ("PersistentVolumeClaim",
                                  "persistentVolumeClaim", "claimName")):
            if field in v:
                expect(f"{name(s)}: there is no {kind} {v[field][key]}",
                       cluster.has(kind, v[field][key]))
        if "secret" in v:
            expect(f"{name(s)}: others may read the Secret of {v['name']}",
                   v["secret"].get("defaultMode", 0o644) & 0o007 == 0)
    for e in c.get("env", []):
        ref = e.get("valueFrom", {}).get("configMapKeyRef")
        expect(f"{name(s)}: {e['name']}: no such key",
               ref is None or cluster.has("ConfigMap", ref["name"], ref["key"]))
    secret = {v["name"]: v["secret"]["secretName"] for v in spec["volumes"]
              if "secret" in v}
    for m in c["volumeMounts"]:
        for value in arguments(c).values():
            if m["name"] in secret and value.startswith(m["mountPath"] + "/"):
                key = value[len(m["mountPath"]) + 1:]
                expect(f"{name(s)}: {value} is not in {secret[m['name']]}",
                       cluster.has("Secret", secret[m["name"]], key))
    if "priorityClassName" in spec:
        expect(f"{name(s)}: no PriorityClass",
               cluster.has("PriorityClass", spec["priorityClassName"]))
    for t in spec.get("topologySpreadConstraints", []):
        expect(f"{name(s)}: spreads other pods",
               cluster.pods(t["labelSelector"]) == [s])


def check_set(cluster, s):
    c = container(s)
    expect(f"{name(s)}: selects other pods",
           cluster.pods(s["spec"]["selector"]) == [s])
    for check in (check_arguments, check_values, check_paths, check_security, check_times,
                  check_ports):
        check(s, c)
    check_references(cluster, s, c)
    if s["kind"] == "StatefulSet":
        (service,) = [o for o in cluster.of("Service") if
                      o["metadata"]["name"] == s["spec"]["serviceName"]]
        expect(f"{name(s)}: its Service is not headless",
               service["spec"].get("clusterIP") == "None")
        expect(f"{name(s)}: pods start one after another",
               s["spec"]["podManagementPolicy"] == "Parallel")
        expect(f"{name(s)}: the workers' names are not those of the pods",
               arguments(c)["--name"] == "$(POD_NAME)")
    stages = arguments(c).get("--stages")
    expect(f"{name(s)}: {s['spec']['replicas']} pods for {stages} stages",
           stages is None or s["spec"]["replicas"] % int(stages) == 0)


def check_service(cluster, o):
    selected = cluster.pods({"matchLabels": o["spec"]["selector"]})
    expect(f"{name(o)} selects no pods", selected)
    for p in o["spec"]["ports"]:
        for s in selected:
            expect(f"{name(o)}: {name(s)} has no port {p['targetPort']}",
                   p["targetPort"] in ports(s))


def check_dials(cluster, s):
    """tcp://SERVICE:PORT of an argument is a port of that Service."""
    for option, value in arguments(container(s)).items():
        m = re.fullmatch(r"tcp://([a-z][a-z-]*):(\d+)", value)
        if m:
            found = [p for o in cluster.of("Service") for p in
                     o["spec"]["ports"] if o["metadata"]["name"] == m[1] and
                     p["port"] == int(m[2])]
            expect(f"{name(s)}: {option}: no Service has {value}", found)
            expect(f"{name(s)}: {option}: {value} is not for such peers",
                   [p["name"] for p in found] ==
                   ["workers" if program(container(s)) == "sluice-worker"
                    else "clients"])


OUTSIDE = {"app.kubernetes.io/name": "sluice-admin"}  # pods of the operator


def allowed(cluster, policy_type, peers_of):
    """(pod, port) pairs that policies of a type allow to pods of the cluster."""
    found = set()
    for o in cluster.of("NetworkPolicy"):
        for rule in o["spec"].get(policy_type, []):
            for mine in cluster.pods(o["spec"]["podSelector"]):
                for p in rule.get("ports", []):
                    for peer in rule[peers_of]:
                        if "namespaceSelector" in peer:
                            found.add((name(mine), "outside", p["port"]))
                            continue
                        for other in cluster.pods(peer["podSelector"]):
                            found.add((name(mine), name(other), p["port"]))
    return found


def check_policy(cluster, o):
    spec = o["spec"]
    expect(f"{name(o)} matches no pods", cluster.pods(spec["podSelector"]) or
           matches(spec["podSelector"], OUTSIDE))
    expect(f"{name(o)}: its types are not those of its rules",
           spec["podSelector"] == {} or {t.lower() for t in spec["policyTypes"]}
           == {t for t in ("ingress", "egress") if t in spec})
    for rule in spec.get("ingress", []):
        # Stages alone open 7081, and not every cluster has them.
        declared = {7081} | {p for s in cluster.pods(spec["podSelector"])
                             for p in ports(s).values()}
        for p in rule["ports"]:
            expect(f"{name(o)}: no pod listens at {p['port']}",
                   p["port"] in declared)
    for direction, key in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction, []):
            for peer in rule[key]:
                if "namespaceSelector" not in peer:
                    expect(f"{name(o)}: {peer} matches no pods",
                           cluster.pods(peer["podSelector"]) or
                           matches(peer["podSelector"], OUTSIDE))


def check_network(cluster):
    """Every connection that the programs make is allowed at both ends, and no
    other one."""
    kinds = {}
    for s in cluster.sets:
        kinds.setdefault(program(container(s)), []).append(name(s))
    wanted = set()
    for to, port, froms in (("sluice-router", 7070, ["sluice-worker"]),
                            ("sluice-router", 7071, ["sluice-gateway"])):
        wanted |= {(a, b, port) for f in froms for a in kinds.get(f, [])
                   for b in kinds[to]}
    workers = kinds.get("sluice-worker", [])
    wanted |= {(a, b, 7081) for a in workers for b in workers}
    ins = {(b, a, p) for a, b, p in allowed(cluster, "ingress", "from")}
    outs = allowed(cluster, "egress", "to")
    expect(f"ingress rules: {ins ^ wanted}",
           {x for x in ins if x[0] != "outside"} == wanted)
    expect(f"egress rules: {outs ^ wanted}",
           {x for x in outs if x[1] != "outside"} == wanted)
    for s in cluster.sets:
        dns = (name(s), "outside", 53) in outs
        expect(f"{name(s)}: DNS", dns == (program(container(s)) !=
                                          "sluice-router"))
    expect("other namespaces reach more than HTTP and metrics",
           {p for a, _, p in ins if a == "outside"} <= {8000, 9464, 9465, 9466})
    expect("pods without a rule of their own are open",
           any(o["spec"] == {"podSelector": {},
                             "policyTypes": ["Ingress", "Egress"]}
               for o in cluster.of("NetworkPolicy")))


def check(objects):
    cluster = Cluster(objects)
    for s in cluster.sets:
        check_set(cluster, s)
        check_dials(cluster, s)
    for o in cluster.of("Service"):
        check_service(cluster, o)
    for o in cluster.of("NetworkPolicy"):
        check_policy(cluster, o)
    check_network(cluster)
    for o in cluster.of("PodDisruptionBudget"):
        (s,) = cluster.pods(o["spec"]["selector"])
        # A budget that one pod breaks blocks the maintenance of its node.
        expect(f"{name(o)} never allows an eviction",
               o["spec"].get("maxUnavailable", 0) > 0 or
               s["spec"]["replicas"] > o["spec"]["minAvailable"])
    for o in cluster.of("PodMonitor"):
        selected = cluster.pods(o["spec"]["selector"])
        expect(f"{name(o)} selects no pods", selected)
        for e in o["spec"]["podMetricsEndpoints"]:
            expect(f"{name(o)}: no port {e['port']}",
                   all(e["port"] in ports(s) for s in selected))
    for o in cluster.of("Ingress"):
        for rule in o["spec"]["rules"]:
            for p in rule["http"]["paths"]:
                to = p["backend"]["service"]
                expect(f"{name(o)}: no Service {to}", any(
                    x["metadata"]["name"] == to["name"] and
                    to["port"]["name"] in {q["name"] for q in
                                           x["spec"]["ports"]}
                    for x in cluster.of("Service")))
    for o in objects:
        if o["kind"] not in ("Namespace", "PriorityClass"):
            expect(f"{name(o)}: namespace {o['metadata'].get('namespace')}",
                   o["metadata"].get("namespace") == "sluice")


if __name__ == "__main__":
    objects = [o for path in sys.argv[1:] for o in json.load(open(path))]
    check(objects)
    for what in wrong:
        print(f"check: {what}", file=sys.stderr)
    print(f"{len(objects)} objects, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)
