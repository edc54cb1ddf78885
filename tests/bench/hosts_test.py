"""bench/hosts.py: hosts are made, their links have a rate, and nothing of them is left.

Without root or network namespaces only the sentence that says so is tested.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "bench", "hosts.py")
sys.path.insert(0, os.path.join(ROOT, "bench"))
import hosts  # noqa: E402

# Sends a million bytes from host 1 to host 0, which says how many came and in which time.
SEND = """
import os, socket, time
if os.environ["RANK"] == "0":
    with socket.create_server((os.environ["MASTER_ADDR"], 5000)) as server:
        link, _ = server.accept()
        begin, count = time.monotonic(), 0
        while block := link.recv(1 << 16):
            count += len(block)
        print(count, time.monotonic() - begin)
else:
    while True:
        try:
            link = socket.create_connection((os.environ["MASTER_ADDR"], 5000))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    link.sendall(bytes(1000000))
    link.close()
"""
# A rank that has begun says so in a file, and stays.
STAY = "import os, time; open(os.environ['BEGAN'] + os.environ.get('RANK', ''), 'w').close(); time.sleep(600)"


def can_make_hosts():
    try:
        with hosts.Hosts(1):
            return True
    except hosts.Trouble:
        return False


def namespaces(pid):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return re.findall(rf"^lac{pid}-\w+", listed, re.MULTILINE)


def run(*words):
    return subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, timeout=120)


class Words(unittest.TestCase):
    def test_a_rate_that_is_none_gets_a_sentence(self):
        for rate in ("fast", "10", "mbit", "0mbit", "1000gbit", "-1mbit"):
            self.assertIn(f"no rate '{rate}'; allowed: ", run(f"--rate={rate}", "--", "true").stderr)

    def test_a_change_that_is_none_gets_a_sentence(self):
        self.assertIn("no change 'soon:1gbit'; allowed: ", run("--then", "soon:1gbit", "--", "true").stderr)
        self.assertIn("no rate ''; allowed: ", run("--then", "5", "--", "true").stderr)

    def test_a_link_has_a_class_for_small_packets_and_for_each_host(self):
        lines = list(hosts.shaping("eth0", "10mbit", 4))
        self.assertEqual(sum(line.startswith("class") for line in lines), 6)
        self.assertEqual(sum("rate 2000000bit ceil 10000000bit" in line for line in lines), 5)
        sorted_by = [line.split("match ")[1].split(" flowid ") for line in hosts.sorting("eth0", 2, "dst") if "match" in line]
        self.assertEqual(sorted_by, [["u16 0x0000 0xff00 at 2", "1:1"], ["ip dst 10.78.0.1/32", "1:2"], ["ip dst 10.78.0.2/32", "1:3"]])

    def test_on_loopback_there_are_processes_and_no_hosts(self):
        with hosts.Hosts(2, "loopback") as two:
            self.assertEqual(two.run(["sh", "-c", "echo $RANK of $WORLD_SIZE at $MASTER_ADDR"], 60), "0 of 2 at 127.0.0.1\n")
            self.assertRaises(hosts.Trouble, two.shape, "10mbit")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to be nobody")
    def test_without_root_it_says_so(self):
        with open(PROGRAM) as file:  # its folder may be closed to nobody
            done = subprocess.run(["setpriv", "--reuid", "65534", sys.executable, "-", "--", "true"],
                                  stdin=file, capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("only root can make", done.stderr)


@unittest.skipUnless(can_make_hosts(), "no root or no network namespaces")
class Made(unittest.TestCase):
    def test_a_command_runs_on_every_host_and_the_link_has_its_rate(self):
        with hosts.Hosts(2, "10mbit") as two:
            count, seconds = two.run([sys.executable, "-c", SEND], timeout=60).split()
            self.assertEqual(int(count), 1000000)
            self.assertGreater(float(seconds), 0.7)  # 0.8 less the burst and what is in queues
            self.assertGreater(two.sent(1), 1000000)
            two.shape("none")
            _, fast = two.run([sys.executable, "-c", SEND], timeout=60).split()
            self.assertLess(float(fast), float(seconds))
        self.assertEqual(namespaces(os.getpid()), [])

    def test_mpirun_puts_one_rank_on_each(self):
        done = run("--hosts", "2", "--mpi", "--", "sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK on $(hostname)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["rank 0 on n0", "rank 1 on n1"])

    def test_one_that_fails_is_named_with_its_words(self):
        done = run("--hosts", "2", "--", "sh", "-c", "echo sorry $RANK; exit $RANK")
        self.assertEqual(done.returncode, 1)
        self.assertIn("fails on host 1:\nsorry 1\n", done.stderr)

    def interrupted(self, number, *words):
        with tempfile.TemporaryDirectory() as folder:
            began = os.path.join(folder, "began")
            command = [sys.executable, PROGRAM, "--hosts", "2", *words, "--", sys.executable, "-c", STAY]
            process = subprocess.Popen(command, env={**os.environ, "BEGAN": began}, stderr=subprocess.DEVNULL)
            while len(os.listdir(folder)) < (1 if "--mpi" in words else 2):
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            self.assertEqual(len(namespaces(process.pid)), 3)
            process.send_signal(number)
            process.wait(60)
        return process.pid

    def test_nothing_is_left_after_ctrl_c_or_kill(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.assertEqual(namespaces(self.interrupted(number)), [])
        self.assertEqual(namespaces(self.interrupted(signal.SIGTERM, "--mpi")), [])

    def test_what_a_kill_by_force_leaves_the_next_run_removes(self):
        pid = self.interrupted(signal.SIGKILL)
        self.assertEqual(len(namespaces(pid)), 3)
        self.assertEqual(run("--hosts", "1", "--", "true").returncode, 0)
        self.assertEqual(namespaces(pid), [])


if __name__ == "__main__":
    unittest.main()
