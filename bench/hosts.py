#!/usr/bin/env python3
"""Several hosts with shaped links on one machine: network namespaces around a bridge.

    bench/hosts.py --rate 100mbit -- build/release/cli/laconic train --transport sockets --recipe natural --steps 100
    bench/hosts.py --rate 100mbit --mpi -- build/release/cli/laconic train --transport mpi --recipe natural --steps 100
    bench/hosts.py --rate 100mbit --then 20:1gbit --then 40:10mbit -- python3 train.py

runs a command once on every host, with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME set, or by mpirun, and
shows what rank 0 says, or the first to fail. Everything made is gone afterwards, whatever happens: Ctrl-C, kill, a command that fails; and
what a run leaves that was killed by force, the next one removes. Needs root, and touches no network but its own: even the bridge is in a
namespace.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

RATES = ("10mbit", "100mbit", "1gbit", "none")  # those that everything is measured at
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
NETWORK = "10.78.0"
PREFIX = "lac"  # of namespaces, and the number of the process that made them
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE = 3  # seconds for the others to say more when one has failed, and for mpirun to end its own


class Trouble(Exception):
    """One sentence for the user."""


def _ip(*words, within=None):
    command = ["ip"] + (["-n", within] if within else []) + list(words)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Trouble(f"'{' '.join(command)}' fails: {done.stderr.strip()}")


def bits_per_second(rate):
    """Of '100mbit'; None of 'none'."""
    if rate == "none":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]bit)", rate)
    if not found or not 1e5 <= float(found[1]) * UNITS[found[2]] <= 1e11:
        raise Trouble(f"no rate '{rate}'; allowed: 100kbit to 100gbit, as in 10mbit or 1gbit, or none")
    return float(found[1]) * UNITS[found[2]]


def sorting(device, hosts, towards):
    """Lines for tc that sort what leaves by a device: small packets, and what goes to or comes from each host."""
    yield f"qdisc add dev {device} root handle 1: htb default 1"
    for number in range(hosts + 1):
        wanted = f"ip {towards} {NETWORK}.{number}/32" if number else "u16 0x0000 0xff00 at 2"  # below 256 bytes
        yield f"filter add dev {device} parent 1: protocol ip prio {number + 1} u32 match {wanted} flowid 1:{number + 1:x}"


def shaping(device, rate, hosts):
    """And that give it this rate, or another if it has one: small packets first, then hosts in turn.

    With one queue for all, acknowledgements wait behind the data that their own host sends, and connections share it as chance has it: at
    10 Mbit/s four hosts that all send to all then take a third longer than their bytes would. Linux's usual queue (fq_codel) avoids both, but
    not every kernel has it; these classes are what every kernel that shapes links has."""
    bits = bits_per_second(rate)
    burst = int(max(1600, min(256_000, bits / 8 * 0.001)))
    longest = int(bits / 8 * (0.1 if bits < 5e7 else 0.05 if bits < 5e8 else 0.02))  # bytes in a queue
    share = f"rate {int(bits / (hosts + 1))}bit ceil {int(bits)}bit burst {burst} cburst {burst} quantum 1514"
    yield f"class replace dev {device} parent 1: classid 1:ffff htb rate {int(bits)}bit burst {burst} cburst {burst} quantum 1514"
    for number in range(hosts + 1):  # the first is for small packets and all that is not IP
        yield f"class replace dev {device} parent 1:ffff classid 1:{number + 1:x} htb {share} prio {min(number, 1)}"
        yield f"qdisc replace dev {device} parent 1:{number + 1:x} handle {number + 16:x}: bfifo limit {max(longest, 4 * burst, 30_000)}"


def sweep():
    """Removes what runs have left that were killed by force."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for name, pid in re.findall(rf"^({PREFIX}(\d+)-\w+)", listed, re.MULTILINE):
        if not lives(pid):
            remove(name)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def remove(name):
    """A namespace, with its links and whatever runs in it."""
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
    for pid in pids.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    subprocess.run(["ip", "netns", "del", name], capture_output=True)


def require():
    """Raises Trouble, in one sentence, where hosts cannot be made."""
    if os.geteuid() != 0:
        raise Trouble("hosts are network namespaces, which only root can make; try sudo")
    for program in ("ip", "tc"):
        if not shutil.which(program):
            raise Trouble(f"'{program}' is not installed; on Debian it is in the package iproute2")


class Hosts:
    """Hosts 10.78.0.1, 10.78.0.2 and so on, each behind a link of this rate in both directions; 'none': unshaped.
    'loopback': no hosts, but processes of this one, which needs no root."""

    def __init__(self, count, rate="none"):
        self.loopback = rate == "loopback"
        if not self.loopback:
            bits_per_second(rate)
        if not 1 <= count <= 200:
            raise Trouble(f"{count} hosts; allowed: 1 to 200")
        self.count, self.rate = count, rate
        self._made = []
        self._running = []
        self._shaped = {}  # by device: whether it has a rate
        self._prefix = f"{PREFIX}{os.getpid()}"
        self._folder = None
        self.output = None  # the file into which rank 0 of the last run has written
        self.complaints = ""  # what rank 0 of the last run wrote to stderr

    def __enter__(self):
        try:
            self._folder = tempfile.mkdtemp(prefix="laconic-hosts-")
            if not self.loopback:
                require()
                sweep()
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
        _ip("address", "add", f"{NETWORK}.254/24", "dev", "bridge", within=switch)  # for mpirun
        _ip("link", "set", "bridge", "up", within=switch)
        for i in range(self.count):
            host = self._namespace(f"{self._prefix}-{i}")
            _ip("link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", f"port{i}", "netns", switch)
            _ip("link", "set", f"port{i}", "master", "bridge", "up", within=switch)
            _ip("address", "add", f"{NETWORK}.{i + 1}/24", "dev", "eth0", within=host)
            _ip("link", "set", "eth0", "up", within=host)
        self.shape(self.rate)

    def shape(self, rate):
        """Gives all links another rate, also while something runs."""
        if self.loopback:
            raise Trouble("loopback has no rate; allowed: hosts")
        bits_per_second(rate)
        self.rate = rate
        switch = f"{self._prefix}-switch"
        for i in range(self.count):
            for within, device, towards in ((f"{self._prefix}-{i}", "eth0", "dst"), (switch, f"port{i}", "src")):
                before = self._shaped.get(device + within)
                if rate == "none" or not before:
                    subprocess.run(["tc", "-n", within, "qdisc", "del", "dev", device, "root"], capture_output=True)
                self._shaped[device + within] = rate != "none"
                if rate != "none":
                    first = [] if before else sorting(device, self.count, towards)
                    self._tc(within, [*first, *shaping(device, rate, self.count)])

    @staticmethod
    def _tc(within, lines):
        done = subprocess.run(["tc", "-n", within, "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
        if done.returncode != 0:
            raise Trouble(f"this kernel does not shape links: tc says {done.stderr.strip()}")

    def sent(self, host):
        """Bytes that a host has sent so far; on loopback nobody counts."""
        if self.loopback:
            return 0
        done = subprocess.run(
            ["ip", "netns", "exec", f"{self._prefix}-{host}", "cat", "/sys/class/net/eth0/statistics/tx_bytes"],
            capture_output=True, text=True, check=True)  # fmt: skip
        return int(done.stdout)

    def start(self, host, command, **more):
        """A process on a host, with the environment that torchrun would give it."""
        return self._start(f"{self._prefix}-{host}", command, RANK=str(host), **more)

    def _start(self, where, command, RANK="0", **more):
        environment = dict(os.environ, RANK=RANK, WORLD_SIZE=str(self.count), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
        if self.loopback:
            environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self._port), GLOO_SOCKET_IFNAME="lo",
                               LOCAL_RANK=RANK, LOCAL_WORLD_SIZE=str(self.count))  # fmt: skip
        else:
            environment.update(MASTER_ADDR=f"{NETWORK}.1", MASTER_PORT="29511", GLOO_SOCKET_IFNAME="eth0")
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment.setdefault(name, "1")
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *([] if self.loopback else ["ip", "netns", "exec", where]), *command],
            env=environment, start_new_session=True, **more)  # fmt: skip
        self._running.append(process)
        return process

    def start_mpi(self, command, **more):
        """mpirun with one rank on every host. It stands at the switch and enters hosts by a script, where others use ssh."""
        if not shutil.which("mpirun"):
            raise Trouble("'mpirun' is not installed; on Debian it is in the package openmpi-bin")
        agent = os.path.join(self._folder, "agent")
        with open(agent, "w") as file:
            file.write(f"""#!/bin/sh
host=$1; shift
export LACONIC_HOST="$host" LACONIC_COMMAND="$*"
exec ip netns exec "{self._prefix}-${{host#n}}" unshare --uts sh -c 'hostname "$LACONIC_HOST"; exec sh -c "$LACONIC_COMMAND"'
""")
        os.chmod(agent, 0o755)
        parameters = {
            "plm": "rsh", "plm_rsh_agent": agent, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": f"{NETWORK}.0/24",
            "oob_tcp_if_include": f"{NETWORK}.0/24", "mpi_yield_when_idle": "1",
        }  # fmt: skip
        words = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-n", str(self.count), "-x", "OMP_NUM_THREADS"]
        words += ["-x", "OPENBLAS_NUM_THREADS", "--oversubscribe"]
        if self.loopback:
            return self._start("", [*words, "--mca", "mpi_yield_when_idle", "1", *command], **more)
        words += ["--host", ",".join(f"n{i}:1" for i in range(self.count))]
        for name, value in parameters.items():
            words += ["--mca", name, value]
        return self._start(f"{self._prefix}-switch", words + list(command), **more)

    def run(self, command, timeout=None, mpi=False, meanwhile=None):
        """Runs a command on all hosts at once; what rank 0 said. Raises Trouble with the words of the first that fails.
        While it runs, `meanwhile` is called again and again with the seconds so far."""
        count = 1 if mpi else self.count
        out = [open(os.path.join(self._folder, f"out-{i}"), "w+") for i in range(count)]
        err = [open(os.path.join(self._folder, f"err-{i}"), "w+") for i in range(count)]
        self.output = out[0].name
        begin = time.monotonic()
        if self.loopback:
            with socket.create_server(("127.0.0.1", 0)) as server:
                self._port = server.getsockname()[1]
        try:
            start = (lambda _, *a, **k: self.start_mpi(*a, **k)) if mpi else self.start
            processes = [start(i, command, stdout=out[i], stderr=err[i]) for i in range(count)]
            while any(p.poll() is None for p in processes):
                if any(p.poll() not in (None, 0) for p in processes):
                    self._wait(processes)  # the others may say more about it
                    break
                if timeout and time.monotonic() > begin + timeout:
                    raise Trouble(f"'{command[0]}' takes longer than {timeout:g} seconds")
                if meanwhile:
                    meanwhile(time.monotonic() - begin)
                time.sleep(0.02)
            failed = [i for i, p in enumerate(processes) if p.poll() not in (None, 0)]
        finally:
            self._stop()
            said = [self._read(file) for file in out]
            complaints = [self._read(file) for file in err]
        if failed:
            words = (said[failed[0]] + complaints[failed[0]]).strip()
            raise Trouble(f"'{' '.join(command)}' fails on host {failed[0]}:\n{words}")
        self.complaints = complaints[0]
        return said[0]

    @staticmethod
    def _read(file):
        with file:
            file.seek(0)
            return file.read()

    @staticmethod
    def _wait(processes):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and any(p.poll() is None for p in processes):
            time.sleep(0.02)

    def _stop(self):
        for process in self._running:  # mpirun ends what it has started if it is asked to
            if process.poll() is None:
                process.terminate()
        self._wait(self._running)
        for process in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._running = []

    def __exit__(self, *_):
        before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}  # nobody interrupts this
        self._stop()
        for name in reversed(self._made):
            remove(name)
        self._made = []
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_on_signals():
    """Ctrl-C and kill leave by an exception, so that nothing is left behind."""

    def leave(number, _):
        raise SystemExit(128 + number)

    for number in SIGNALS:
        signal.signal(number, leave)


def read_changes(texts):
    """(seconds, rate) of each 'SECONDS:RATE', in order."""
    changes = []
    for text in texts:
        seconds, _, rate = text.partition(":")
        try:
            changes.append((float(seconds), rate))
        except ValueError:
            raise Trouble(f"no change '{text}'; allowed: SECONDS:RATE, as in 20:1gbit")
        bits_per_second(rate)
    return sorted(changes)


def main():
    parser = argparse.ArgumentParser(
        description="Runs a command on several hosts with shaped links, made of network namespaces.",
        usage="%(prog)s [options] -- COMMAND...")  # fmt: skip
    parser.add_argument("--hosts", type=int, default=4, help="how many (4)")
    parser.add_argument("--rate", default="none", help="of every link, in both directions: 10mbit, 100mbit, 1gbit, ..., none; or loopback (none)")
    parser.add_argument("--then", action="append", default=[], metavar="SECONDS:RATE", help="another rate after so many seconds")
    parser.add_argument("--mpi", action="store_true", help="start the command by mpirun, one rank on each host")
    parser.add_argument("--timeout", type=float, default=0, help="seconds; 0: no limit")
    parser.add_argument("--json", action="store_true", help="seconds, bytes sent by each host and the output as JSON")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    stop_on_signals()
    try:
        changes = read_changes(options.then)
        with Hosts(options.hosts, options.rate) as hosts:

            def meanwhile(seconds):
                while changes and changes[0][0] <= seconds:
                    hosts.shape(changes.pop(0)[1])

            start = time.monotonic()
            said = hosts.run(options.command, options.timeout, options.mpi, meanwhile)
            seconds = time.monotonic() - start
            sent = [hosts.sent(i) for i in range(options.hosts)]
            sys.stderr.write(hosts.complaints)
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
