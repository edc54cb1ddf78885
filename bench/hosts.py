#!/usr/bin/env python3
"""Several hosts with shaped links on one machine: network namespaces around a bridge.

    bench/hosts.py --hosts 4 --rate 100mbit -- COMMAND...

runs COMMAND once on every host, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME set, and shows
what rank 0 says, or the first to fail. Everything made is gone afterwards, whatever happens. Needs root, and touches no network
but its own: even the bridge is in a namespace.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RATES = {  # what a token bucket needs to reach its rate: burst, longest queue
    "10mbit": ("16kb", "100ms"),
    "100mbit": ("64kb", "50ms"),
    "1gbit": ("256kb", "20ms"),
}


class Trouble(Exception):
    """One sentence for the user."""


def _ip(*words, within=None):
    command = ["ip"] + (["-n", within] if within else []) + list(words)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Trouble(f"'{' '.join(command)}' fails: {done.stderr.strip()}")


def require():
    """Raises Trouble, in one sentence, where hosts cannot be made."""
    if os.geteuid() != 0:
        raise Trouble("hosts are network namespaces, which only root can make; try sudo")
    for program in ("ip", "tc"):
        if not shutil.which(program):
            raise Trouble(f"'{program}' is not installed; on Debian it is in the package iproute2")


class Hosts:
    """Hosts 10.78.0.1, 10.78.0.2 and so on, each behind a link of this rate in both directions; None: unshaped."""

    def __init__(self, count, rate=None):
        if rate is not None and rate not in RATES:
            raise Trouble(f"no rate '{rate}'; known: {', '.join(RATES)}, none")
        if not 1 <= count <= 200:
            raise Trouble(f"{count} hosts; allowed: 1 to 200")
        self.count, self.rate = count, rate
        self._made = []
        self._running = []
        self._prefix = f"lac{os.getpid()}"

    def __enter__(self):
        require()
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _namespace(self, name):
        _ip("netns", "add", name)
        self._made.append(name)
        _ip("link", "set", "lo", "up", within=name)
        return name

    def _build(self):
        switch = self._namespace(f"{self._prefix}-switch")
        _ip("link", "add", "bridge", "type", "bridge", within=switch)
        _ip("link", "set", "bridge", "up", within=switch)
        for i in range(self.count):
            host = self._namespace(f"{self._prefix}-{i}")
            _ip("link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", f"port{i}", "netns", switch)
            _ip("link", "set", f"port{i}", "master", "bridge", "up", within=switch)
            _ip("address", "add", f"10.78.0.{i + 1}/24", "dev", "eth0", within=host)
            _ip("link", "set", "eth0", "up", within=host)
        self.shape(self.rate)

    def shape(self, rate):
        """Gives all links another rate, also while something runs."""
        self.rate = rate
        switch = f"{self._prefix}-switch"
        for i in range(self.count):
            for within, device in ((f"{self._prefix}-{i}", "eth0"), (switch, f"port{i}")):
                subprocess.run(["tc", "-n", within, "qdisc", "del", "dev", device, "root"], capture_output=True)
                if rate is None:
                    continue
                burst, longest = RATES[rate]
                command = ["tc", "-n", within, "qdisc", "add", "dev", device, "root", "tbf",
                           "rate", rate, "burst", burst, "latency", longest]  # fmt: skip
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != 0:
                    raise Trouble(f"this kernel does not shape links: '{' '.join(command)}' says {done.stderr.strip()}")

    def sent(self, host):
        """Bytes that a host has sent so far."""
        done = subprocess.run(
            ["ip", "netns", "exec", f"{self._prefix}-{host}", "cat", "/sys/class/net/eth0/statistics/tx_bytes"],
            capture_output=True, text=True, check=True)  # fmt: skip
        return int(done.stdout)

    def start(self, host, command, **more):
        """A process on a host, with the environment that torchrun would give it."""
        environment = dict(
            os.environ, RANK=str(host), WORLD_SIZE=str(self.count), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
            MASTER_ADDR="10.78.0.1", MASTER_PORT="29511", GLOO_SOCKET_IFNAME="eth0",
        )  # fmt: skip
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment.setdefault(name, "1")
        process = subprocess.Popen(
            ["ip", "netns", "exec", f"{self._prefix}-{host}", *command], env=environment, start_new_session=True, **more)  # fmt: skip
        self._running.append(process)
        return process

    def run(self, command, timeout=None):
        """Runs a command on all hosts at once; what rank 0 said. Raises Trouble with the words of the first that fails."""
        with tempfile.TemporaryDirectory() as folder:
            files = [open(os.path.join(folder, str(i)), "w+") for i in range(self.count)]
            processes = [
                self.start(i, command, stdout=files[i], stderr=subprocess.STDOUT) for i in range(self.count)
            ]
            end = time.monotonic() + timeout if timeout else None
            while any(p.poll() is None for p in processes):
                failed = [i for i, p in enumerate(processes) if p.poll() not in (None, 0)]
                if failed:
                    time.sleep(2)  # the others may say more about it
                    break
                if end and time.monotonic() > end:
                    raise Trouble(f"'{command[0]}' takes longer than {timeout} seconds")
                time.sleep(0.05)
            failed = [i for i, p in enumerate(processes) if p.poll() not in (None, 0)]
            self._stop()
            said = []
            for file in files:
                file.flush()
                file.seek(0)
                said.append(file.read())
                file.close()
        if failed:
            raise Trouble(f"'{' '.join(command)}' fails on host {failed[0]}:\n{said[failed[0]].strip()}")
        return said[0]

    def _stop(self):
        for process in self._running:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
        self._running = []

    def __exit__(self, *_):
        self._stop()
        for name in reversed(self._made):  # and their links with them
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        self._made = []


def stop_on_signals():
    """Ctrl-C and kill leave by an exception, so that nothing is left behind."""

    def leave(number, _):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGHUP, leave)


def main():
    parser = argparse.ArgumentParser(
        description="Runs a command on several hosts with shaped links, made of network namespaces.",
        usage="%(prog)s [options] -- COMMAND...")  # fmt: skip
    parser.add_argument("--hosts", type=int, default=4, help="how many (4)")
    parser.add_argument("--rate", default="none", help=f"of every link: {', '.join(RATES)} or none (none)")
    parser.add_argument("--timeout", type=float, default=0, help="seconds; 0: no limit")
    parser.add_argument("--json", action="store_true", help="seconds, bytes sent by each host and the output as JSON")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    stop_on_signals()
    try:
        with Hosts(options.hosts, None if options.rate == "none" else options.rate) as hosts:
            start = time.monotonic()
            said = hosts.run(options.command, options.timeout)
            seconds = time.monotonic() - start
            sent = [hosts.sent(i) for i in range(options.hosts)]
    except Trouble as trouble:
        print(f"hosts: {trouble}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"seconds": seconds, "sent": sent, "output": said}))
    else:
        print(said, end="")
        print(f"{seconds:.1f} s, {max(sent):,} bytes sent by the busiest host", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
