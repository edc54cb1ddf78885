"""Where the program writes: never half a file, never over what it may not touch.

Run: python3 outputs_test.py path/to/laconic [unittest options], or with the path in $LACONIC.
"""

import os
import stat
import subprocess

import numpy as np

from cli_case import CliTest, command, main, run


class Outputs(CliTest):
    """A file is written as a whole or not at all."""

    def test_missing_folder(self):
        source, target = self.save(np.ones(3, "float32")), self.path("no/x.lac")
        self.fails(
            1, "compress", "--op", "natural", source, target, says=[str(target), "No such file"]
        )

    def test_a_folder_is_no_file(self):
        source = self.save(np.ones(3, "float32"))
        self.fails(1, "compress", "--op", "natural", source, self.folder, says=["directory"])

    def test_nothing_is_left_beside_the_result(self):
        self.compress(np.ones(3, "float32"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["in.npy", "x.lac"])

    def test_files_that_may_not_be_written_are_not_replaced(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everything")
        frame = self.compress(np.ones(3, "float32"))
        frame.chmod(0o444)
        self.fails(1, "compress", "--op", "half", self.path("in.npy"), frame, says=["Permission"])

    def test_full_disk_leaves_the_old_file(self):
        disk = self.path("disk")
        disk.mkdir()
        if os.geteuid() != 0:
            self.skipTest("mounting a small disk needs root")
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("mounting is not allowed here")
        self.addCleanup(subprocess.run, ["umount", str(disk)])
        source, target = self.save(np.ones(100_000, "float32")), disk / "x.lac"
        command = ["compress", "--op", "natural", source, target]
        self.fails(1, *command, says=[str(target), "No space left"])
        self.assertEqual(os.listdir(disk), [])
        target.write_bytes(b"old")
        self.fails(1, *command, says=["No space left"])
        self.assertEqual(os.listdir(disk), ["x.lac"])
        self.assertEqual(target.read_bytes(), b"old")

    def test_devices_are_written_through_not_replaced(self):
        source = self.save(np.ones(3, "float32"))
        self.fails(1, "compress", "--op", "natural", source, "/dev/full", says=["No space left"])
        self.ok("compress", "--op", "natural", source, "/dev/null")
        for device in ["/dev/full", "/dev/null"]:
            self.assertTrue(stat.S_ISCHR(os.stat(device).st_mode))

    def test_devices_are_not_read_and_pipes_are(self):
        for device in ["/dev/zero", "/dev/urandom", "/dev/null"]:
            says = [f"cannot read {device}: a device; allowed: a file or a pipe"]
            self.fails(2, "compress", "--op", "natural", device, self.path("x.lac"), says=says)
            self.fails(2, "inspect", device, says=says)
            self.fails(2, "consensus", "--edges", device, says=says)
        source = self.save(np.ones(3, "float32"))
        words = command("compress", "--op", "natural", "/dev/stdin", self.path("x.lac"))
        done = subprocess.run(words, input=source.read_bytes(), capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_links_are_followed_and_permissions_kept(self):
        old, link = self.path("old.lac"), self.path("link.lac")
        old.write_bytes(b"old")
        old.chmod(0o640)
        link.symlink_to(old)
        source = self.save(np.ones(3, "float32"))
        self.ok("compress", "--op", "natural", source, link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(old.read_bytes()[:3], b"LAC")
        self.assertEqual(stat.S_IMODE(old.stat().st_mode), 0o640)

    def test_new_files_obey_the_umask(self):
        source, target = self.save(np.ones(3, "float32")), self.path("x.lac")
        self.ok("compress", "--op", "natural", source, target, umask=0o027)
        self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o640)

    def test_results_that_cannot_be_printed_are_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run(command("list"), stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Alaconic: [^\n]+No space left[^\n]+\n\Z")

    def test_too_little_memory_is_one_sentence(self):
        self.fails(1, "bench", "operators", "--count", 4 * 10**18, says=["memory"])


if __name__ == "__main__":
    main()
