"""Replicas of `sluice serve` behind HAProxy on this machine, with packaging/container/haproxy.cfg, for tests in Python."""

import http.client
import pathlib
import socket
import subprocess
import time

from served_digits import is_built_with

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "digits.safetensors"
TIME_LIMIT = 60  # seconds, for a machine that is busy


def free_ports(count):
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def status_of(port, path):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def wait_until(what, condition):
    end = time.monotonic() + TIME_LIMIT
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not happen in {TIME_LIMIT} seconds")
        time.sleep(0.02)


def balancer_config(ports, replicas):
    """The packaged file with addresses of this machine. `ports`: of HTTP and gRPC; `replicas`: such pairs. Each place
    must be there once."""
    lines = (ROOT / "packaging/container/haproxy.cfg").read_text().splitlines()
    resolvers = lines.index("resolvers containers")
    del lines[resolvers:]
    made = []
    for line in lines:
        found = [i for i, name in enumerate(("8000", "8001")) if line.split("#")[0].split()[:2] == ["bind", f":{name}"]]
        if found:
            line = line.replace(f":{8000 + found[0]}", f"127.0.0.1:{ports[found[0]]}")
        if line.endswith("# replicas"):
            which = 0 if " sluice:8000 " in line else 1
            check = f" port {{}}" if which == 1 else ""
            made += [f"    server replica{i} 127.0.0.1:{each[which]}{check.format(each[0])}" for i, each in enumerate(replicas)]
            continue
        made.append(line)
    text = "\n".join(made) + "\n"
    if text.count("127.0.0.1:") != 2 + 2 * len(replicas) or "sluice:" in text:
        raise SystemExit("haproxy.cfg does not have the lines that are replaced")
    return text


class Site:
    """The processes. Those that still run at the end are killed. HAProxy knows `places` replicas, of which `started` run at
    first."""

    def __init__(self, sluice, folder, options=(), models=(f"digits={MODEL}",), places=3, started=3):
        self.sluice, self.folder, self.processes = sluice, folder, []
        self.options, self.started = [*options, *models], started
        self.has_grpc = is_built_with(sluice, "gRPC")
        self.port, self.grpc_port, *ports = free_ports(2 + 2 * places)
        self.replica_ports, self.grpc_ports = ports[:places], dict(zip(ports[:places], ports[places:]))

    def __enter__(self):
        self.replicas = [self.start_replica(port) for port in self.replica_ports[: self.started]]
        for port in self.replica_ports[: self.started]:
            self.wait_for(port)
        config = self.folder / "haproxy.cfg"
        text = balancer_config((self.port, self.grpc_port), list(self.grpc_ports.items()))
        config.write_text(text.replace("global\n", f"global\n    stats socket {self.folder}/haproxy.sock\n", 1))
        subprocess.run(["haproxy", "-c", "-q", "-f", config], check=True)
        self.start(["haproxy", "-db", "-f", config], "haproxy")
        wait_until("an answer through HAProxy", lambda: status_of(self.port, "/v2/health/ready") == 200)
        return self

    def start(self, command, name):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        return self.processes[-1]

    def start_replica(self, port):
        grpc = ["--grpc-port", str(self.grpc_ports[port])] if self.has_grpc else []
        return self.start(
            [self.sluice, "serve", "--device", "cpu", "--port", str(port), *grpc, *self.options], f"replica-{port}"
        )

    def wait_for(self, port):
        wait_until(f"a server on port {port}", lambda: status_of(port, "/v2/health/ready") == 200)

    def has_found_ready(self, port):
        """Whether HAProxy gives this replica requests."""
        with socket.socket(socket.AF_UNIX) as asks:
            asks.connect(f"{self.folder}/haproxy.sock")
            asks.sendall(b"show stat\n")
            lines = b"".join(iter(lambda: asks.recv(65536), b"")).decode().splitlines()
        names = lines[0].lstrip("# ").split(",")
        server = f"replica{self.replica_ports.index(port)}"
        rows = (dict(zip(names, each.split(","))) for each in lines[1:])
        found = [each["status"] for each in rows if each.get("pxname") == "replicas" and each.get("svname") == server]
        return len(found) == 1 and found[0].startswith("UP")

    def __exit__(self, *_):
        for each in self.processes:
            if each.poll() is None:
                each.kill()
            each.wait()
