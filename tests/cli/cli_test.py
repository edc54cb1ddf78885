"""Tests of the program as a user meets it: files in, files out, exit codes, one sentence per error.

Run: python3 cli_test.py path/to/laconic [unittest options], or with the path in $LACONIC.
"""

import io
import itertools
import json
import os
import random
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

PROGRAM = os.environ.get("LACONIC")
GOLDEN = Path(__file__).parent.parent / "golden"


def run(*args, **options):
    command = [PROGRAM, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def npy_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npy_with(header, data, version=1, length=None):
    """A .npy file with any header text, right or wrong."""
    text = header.encode("latin-1")
    length = len(text) if length is None else length
    form = "<H" if version == 1 else "<I"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(form, length) + text + data


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def path(self, name):
        return self.folder / name

    def ok(self, *args, **options):
        result = run(*args, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def fails(self, code, *args, says=()):
        """The command fails with this exit code and exactly one sentence, which has these words."""
        result = run(*args)
        self.assertEqual(result.returncode, code, f"{args}: {result.stderr}")
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Alaconic: [^\n]+\n\Z")
        for words in says:
            self.assertIn(words, result.stderr)

    def save(self, array, name="in.npy"):
        self.path(name).write_bytes(npy_bytes(array))
        return self.path(name)

    def compress(self, array, *options, op="natural"):
        source, frame = self.save(array), self.path("x.lac")
        self.ok("compress", "--op", op, *options, source, frame)
        return frame

    def round_trip(self, array, op):
        frame, target = self.compress(array, op=op), self.path("out.npy")
        self.ok("decompress", frame, target)
        return np.load(target)


SHAPES = [(), (0,), (3, 0, 2), (1,), (7,), (63,), (64,), (4097,), (3, 5, 7), (1, 1, 1)]


def values(shape, dtype, seed=0):
    draws = np.random.default_rng(seed).normal(0, 0.01, size=shape)
    return np.asarray(draws).astype(dtype)


class RoundTrips(CliTest):
    def test_identity_keeps_every_shape_and_dtype(self):
        for shape, dtype in itertools.product(SHAPES, ["float16", "float32", "float64"]):
            array = values(shape, dtype)
            expected = array.astype("float32").astype(dtype)
            for op in ["identity", "entropy"]:
                got = self.round_trip(array, op)
                self.assertEqual((got.shape, got.dtype), (array.shape, array.dtype))
                np.testing.assert_array_equal(got, expected)

    def test_natural_gives_neighbouring_powers_of_two(self):
        for shape, dtype in itertools.product(SHAPES, ["float16", "float32", "float64"]):
            array = values(shape, dtype)
            got = self.round_trip(array, "natural")
            self.assertEqual((got.shape, got.dtype), (array.shape, array.dtype))
            mantissa, _ = np.frexp(got)
            self.assertTrue(np.isin(np.abs(mantissa), [0, 0.5]).all())
            ratio = np.abs(got.astype("float64")) / np.abs(array.astype("float64"))
            self.assertTrue(((ratio > 0.5) & (ratio < 2)).all())

    def test_every_float16_survives(self):
        array = np.arange(65536, dtype="uint16").view("float16")
        finite = array[np.isfinite(array)]
        np.testing.assert_array_equal(self.round_trip(finite, "identity"), finite)
        got = self.round_trip(array, "natural")  # holds NaN and Inf: stored as it is
        np.testing.assert_array_equal(got.view("uint16"), array.view("uint16"))

    def test_what_leaves_the_range_of_float16_stays_finite(self):
        got = self.round_trip(np.full(1000, 49152, "float16"), "natural")
        self.assertEqual(set(got.tolist()), {32768.0, 65504.0})

    def test_float16_rounds_like_numpy(self):
        array = values(100_003, "float16")
        wide = self.round_trip(array.astype("float32"), "half")
        np.testing.assert_array_equal(self.round_trip(array, "half"), wide.astype("float16"))

    def test_arrays_with_nan_and_inf_survive_exactly(self):
        bits = np.array(
            [
                0x7FC00000,
                0xFFC00001,
                0x7F800001,
                0x7F800000,
                0xFF800000,
                0x80000000,
                0,
                1,
                0x3F800000,
                0x7F7FFFFF,
            ],
            dtype="uint32",
        )
        for op in ["natural", "natural:8+entropy", "half"]:
            got = self.round_trip(bits.view("float32"), op)
            np.testing.assert_array_equal(got.view("uint32"), bits)

    def test_nan_and_inf_in_float64_stay(self):
        array = np.array([1.5, np.nan, np.inf, -np.inf, 0.25])
        np.testing.assert_array_equal(self.round_trip(array, "natural"), array)

    def test_all_versions_of_the_format_are_read(self):
        array = values((3, 4), "float32")
        for version in [(1, 0), (2, 0), (3, 0)]:
            with open(self.path("in.npy"), "wb") as file:
                np.lib.format.write_array(file, array, version=version)
            self.ok("compress", "--op", "identity", self.path("in.npy"), self.path("x.lac"))
            self.ok("decompress", self.path("x.lac"), self.path("out.npy"))
            np.testing.assert_array_equal(np.load(self.path("out.npy")), array)

    def test_a_file_may_be_replaced_by_its_own_frame(self):
        source = self.save(values((100,), "float32"))
        self.ok("compress", "--op", "natural", source, source)
        self.assertEqual(source.read_bytes()[:3], b"LAC")


class Bytes(CliTest):
    def test_same_seed_same_bytes_and_another_seed_others(self):
        array = values((1000,), "float32")
        first, second, third = (
            self.compress(array, "--seed", seed).read_bytes() for seed in [7, 7, 8]
        )
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)
        self.assertEqual(len(first), len(third))

    def test_bytes_depend_on_neither_cpu_nor_threads(self):
        array = values((100_003,), "float32")
        known = run("--cpu", "abacus", "list").stderr.split("known: ")[1].split()
        self.assertIn("scalar", known)
        for op in ["natural", "natural:8+entropy", "half"]:
            expected = self.compress(array, op=op).read_bytes()
            for cpu, threads in itertools.product(known, [1, 2, 3]):
                with self.subTest(op=op, cpu=cpu, threads=threads):
                    frame = self.compress(array, "--cpu", cpu, "--threads", threads, op=op)
                    self.assertEqual(frame.read_bytes(), expected)

    def test_decoding_depends_on_neither_cpu_nor_threads(self):
        frame = self.compress(values((100_003,), "float32"), op="natural+entropy")
        target = self.path("out.npy")
        self.ok("decompress", frame, target)
        expected = target.read_bytes()
        for cpu, threads in [("scalar", 1), ("auto", 3)]:
            self.ok("--cpu", cpu, "decompress", "--threads", threads, frame, target)
            self.assertEqual(target.read_bytes(), expected)


class Reports(CliTest):
    def test_compress_prints_one_line(self):
        source = self.save(np.ones(1_000_000, "float32"))
        line = self.ok("compress", "--op", "natural", source, self.path("x.lac"))
        wire = f"{self.path('x.lac').stat().st_size:,}"
        self.assertEqual(
            line, f"{source}: 4,000,000 -> {wire} bytes, 3.56x, 9.000 bits per entry, natural\n"
        )
        quiet = self.ok("compress", "--quiet", "--op", "natural", source, self.path("x.lac"))
        self.assertEqual(quiet, "")

    def test_compress_reports_the_real_bytes(self):
        source, frame = self.save(values((1000,), "float32")), self.path("x.lac")
        report = json.loads(self.ok("compress", "--json", "--op", "natural", source, frame))
        self.assertEqual(
            set(report),
            {"spec", "count", "payload_bytes", "wire_bytes", "ratio", "bits_per_entry"},
        )
        self.assertEqual((report["spec"], report["count"]), ("natural", 1000))
        self.assertEqual(report["payload_bytes"], 1125)
        self.assertEqual(report["wire_bytes"], frame.stat().st_size)
        self.assertAlmostEqual(report["ratio"], 4000 / frame.stat().st_size)

    def test_inspect_tells_all(self):
        frame = self.compress(values((10, 5), "float64"), "--seed", 9, op="natural+entropy")
        report = json.loads(self.ok("inspect", "--json", frame))
        keys = {
            "spec",
            "count",
            "payload_bytes",
            "wire_bytes",
            "sections",
            "data_version",
            "seed",
            "step",
            "rank",
            "ranks",
            "dtype",
            "shape",
            "ratio",
            "bits_per_entry",
            "finite",
            "complete",
            "crc",
            "operators",
        }
        self.assertEqual(set(report), keys)
        self.assertEqual(report["shape"], [10, 5])
        self.assertEqual((report["dtype"], report["seed"], report["count"]), ("float64", 9, 50))
        (section,) = report["sections"]
        self.assertEqual(
            list(section),
            "name first count spec bytes bits_per_entry finite rests kept codec".split(),
        )
        (operator,) = report["operators"]
        self.assertEqual((operator["count"], operator["traits"]["omega"]), (50, 0.125))
        self.assertEqual((section["name"], section["spec"]), ("data", "natural+entropy"))
        self.assertEqual(section["bytes"], report["payload_bytes"])
        self.assertIn("float64 (10, 5), 50 entries", self.ok("inspect", frame))

    def test_inspect_counts_kept_entries(self):
        for op, codec in [
            ("topk:0.1", "rice"),
            ("topk:0.1,fano", "fano"),
            ("randomk:0.1", "drawn"),
        ]:
            frame = self.compress(values((1000,), "float32"), op=op)
            (section,) = json.loads(self.ok("inspect", "--json", frame))["sections"]
            self.assertEqual((section["kept"], section["codec"]), (100, codec))
            self.assertRegex(self.ok("inspect", frame), rf" 100 .* {codec} +{op}")

    def test_inspect_of_nothing_divides_by_nothing(self):
        frame = self.compress(np.zeros((0, 3), "float32"))
        report = json.loads(self.ok("inspect", "--json", frame))
        self.assertEqual((report["count"], report["bits_per_entry"]), (0, 0))
        self.ok("inspect", frame)

    def test_inspect_says_what_is_not_finite(self):
        frame = self.compress(np.array([1, np.nan], "float32"))
        self.assertFalse(json.loads(self.ok("inspect", "--json", frame))["finite"])
        self.assertIn("NaN or Inf", self.ok("inspect", frame))

    def test_inspect_says_what_rests_and_of_how_many_ranks(self):
        frame = GOLDEN / "everything.lac"
        report = json.loads(self.ok("inspect", "--json", frame))
        self.assertEqual((report["rank"], report["ranks"], report["complete"]), (300, 512, True))
        self.assertEqual([s["rests"] for s in report["sections"]], [False] * 4 + [True])
        self.assertIn("rank 300 of 512", self.ok("inspect", frame))
        self.assertIn("(rests)", self.ok("inspect", frame))

    def test_a_part_of_an_array_is_inspected_and_not_decompressed(self):
        frame = GOLDEN / "sparse.lac"
        report = json.loads(self.ok("inspect", "--json", frame))
        self.assertEqual((report["dtype"], report["complete"]), ("bfloat16", False))
        self.assertEqual([s["first"] for s in report["sections"]], [0, 100, 300, 600, 901])
        self.assertIn("a part of it", self.ok("inspect", frame))
        self.fails(3, "decompress", frame, self.path("x.npy"), says=["a part of an array"])

    def test_list_names_every_registry(self):
        report = json.loads(self.ok("list", "--json"))
        self.assertEqual(
            list(report),
            "operators index_codecs level_codecs memories layouts exchanges mixers topologies "
            "transports recipes models".split(),
        )
        for group in report.values():
            self.assertTrue(group)
            for entry in group:
                self.assertLessEqual({"name", "summary", "paper", "parameters"}, set(entry))
        natural = next(entry for entry in report["operators"] if entry["name"] == "natural")
        self.assertTrue(natural["traits"]["unbiased"])
        self.assertEqual(natural["traits"]["omega"], 0.125)
        self.assertEqual([p["default"] for p in natural["parameters"]], ["9", "stochastic"])
        for entry in report["recipes"]:
            self.assertEqual(entry["recipe"]["name"], entry["name"])
        dgc = next(entry["recipe"] for entry in report["recipes"] if entry["name"] == "dgc")
        self.assertEqual((dgc["op"], dgc["memory"], dgc["training"]["lr"]), ("topk:0.001", "dgc:0.5", 0.4))

    def test_list_tells_all_of_one_name(self):
        (entry,) = json.loads(self.ok("list", "topk", "--json"))["operators"]
        index = next(p for p in entry["parameters"] if p["name"] == "index")
        self.assertTrue(index["range"].startswith("auto | rice"))
        self.assertIn("bits: 8 + P", self.ok("list", "topk"))
        self.assertIn("recipes", self.ok("list", "natural"))

    def test_list_says_what_it_does_not_know(self):
        self.fails(2, "list", "recipe", says=["no operator 'recipe', nor anything else", "operators", "recipes"])
        self.fails(2, "list", "natrual+entropy", says=["no operator 'natrual', nor anything else"])
        self.fails(2, "list", "choco:0.4", says=["'choco:0.4' is no chain", "laconic list choco"])
        self.fails(2, "list", "natural+choco", says=["no operator 'choco'"])
        self.fails(2, "list", "natural:7", says=["natural: '7' is not allowed"])

    def test_list_tells_what_a_chain_promises(self):
        report = json.loads(self.ok("list", "topk:0.01+natural", "--count", 5000, "--json"))
        self.assertEqual(report["delta"], 0.01 * 7 / 8)
        self.assertTrue(report["random"])
        shared = json.loads(self.ok("list", "randomk:0.1,unscaled", "--json"))
        self.assertTrue(shared["shared"] and not shared["unbiased"])
        self.assertIn("each entry within 0.01", self.ok("list", "threshold:0.01,rice"))
        self.fails(2, "list", "topkk", says=["no operator 'topkk'", "known:"])
        self.fails(2, "list", "topk:2", says=["'2' is not allowed"])
        self.fails(2, "list", "--count", 0, says=["--count"])

    def test_terminal_output_fits_100_columns(self):
        for command in [
            ["list"],
            ["audit", "--model", "lenet5"],
            ["demo"],
            ["bench", "operators", "--count", "1000"],
            ["bench", "step", "--count", "1000", "--repeats", "1"],
            ["bench", "overlap", "--count", "1600", "--repeats", "1", "--backward", "0.02"],
        ]:
            for line in self.ok(*command).splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_the_demo_runs(self):
        shown = self.ok("demo")
        self.assertIn("natural+entropy", shown)
        self.assertIn("Next:", shown)

    def test_benches_of_methods(self):
        one = ["--method", "gather natural none", "--count", 4000, "--ranks", 2, "--repeats", 1]
        step = json.loads(self.ok("bench", "step", *one, "--json"))
        self.assertEqual([row["method"] for row in step["methods"]], ["gather natural none"])
        self.assertGreater(step["methods"][0]["step_seconds"], 0)
        overlap = json.loads(
            self.ok("bench", "overlap", *one, "--parts", 4, "--backward", 0.05, "--json")
        )
        # A step cannot end before its backward pass has.
        self.assertGreaterEqual(overlap["methods"][0]["together_over_backward"], 1)
        for command in "step", "overlap":
            self.fails(2, "bench", command, "--method", "gather", says=["EXCHANGE OPERATOR"])
            self.fails(2, "bench", command, "--ranks", 0, says=["--ranks"])
        self.fails(2, "bench", "overlap", "--parts", 0, says=["--parts"])
        self.fails(2, "bench", "overlap", "--backward", 0, says=["--backward"])

    def test_bench_reports_ratios_to_memcpy(self):
        report = json.loads(
            self.ok(
                "bench",
                "operators",
                "--op",
                "natural",
                "--op",
                "natural:8",
                "--count",
                100_000,
                "--repeats",
                2,
                "--threads",
                2,
                "--json",
            )
        )
        self.assertEqual((report["count"], report["threads"]), (100_000, 2))
        self.assertGreater(report["memcpy_seconds"], 0)
        self.assertEqual([row["spec"] for row in report["operators"]], ["natural", "natural:8"])
        for row in report["operators"]:
            ratio = row["encode_seconds"] / report["memcpy_seconds"]
            self.assertAlmostEqual(row["encode_over_memcpy"], ratio)
            self.assertGreater(row["add_over_memcpy"], 0)
        self.assertEqual(report["operators"][0]["bits_per_entry"], 9)

    def test_every_command_has_help_with_examples(self):
        commands = "audit compress decompress demo granularity inspect list".split()
        for command in ["bench operators", *commands]:
            shown = self.ok(*command.split(), "--help")
            self.assertIn("Examples:\n  laconic", shown)
        self.assertIn("compress", self.ok("--help"))
        self.assertRegex(self.ok("--version"), r"\Alaconic \d+\.\d+\.\d+\n\Z")


class Mistakes(CliTest):
    def test_wrong_specs_are_explained(self):
        source, frame = self.save(np.ones(3, "float32")), self.path("x.lac")
        cases = {
            "natrual": ["no operator 'natrual'", "known:", "natural"],
            "natural:banana": ["'banana' is not allowed", "stochastic"],
            "natural+half": ["'half'", "cannot follow 'natural'"],
            "": ["empty"],
            "natural+": ["empty"],
        }
        for spec, says in cases.items():
            self.fails(2, "compress", "--op", spec, source, frame, says=says)
        self.assertFalse(frame.exists())

    def test_wrong_arguments_point_to_help(self):
        help_of_compress = "see laconic compress --help"
        self.fails(2, "compress", "a.npy", "b.lac", says=["--op", help_of_compress])
        self.fails(2, "compress", "--op", "natural", "a.npy", says=[help_of_compress])
        self.fails(2, "compress", "--op", "natural", "a", "b", "c", says=[help_of_compress])
        self.fails(2, "compress", "--seed", "x", "--op", "natural", "a", "b", says=["--seed: x is not", "whole numbers"])
        self.fails(2, "bench", "overlap", "--ranks", "x", says=["--ranks: 'x' is not", "whole numbers"])
        self.fails(2, "bench", "overlap", "--backward", "x", says=["--backward: 'x' is not", "allowed: numbers"])
        self.fails(2, "inspect", "--jsno", "a.lac", says=["--jsno", "see laconic inspect --help"])
        self.fails(2, "bench", says=["see laconic bench --help"])
        self.fails(2, "bench", "overlap", "--stops", "3", says=["laconic bench overlap has no option '--stops'; see"])
        self.fails(2, "inspect", "a.lac", "b.lac", says=["'b.lac' is a word too many; see laconic inspect --help"])
        self.fails(2, "compres", says=["no command 'compres'; known: audit bench compare compress"])
        self.fails(2, "--speed", says=["--speed", "see laconic --help"])
        self.fails(2, "list", "--cpu", "abacus", says=["no instruction set 'abacus'", "scalar"])
        for threads in ["0", "-1", "9999"]:
            self.fails(2, "demo", "--threads", threads, says=["threads"])
        for option in ["--count", "--repeats"]:
            self.fails(2, "bench", "operators", option, "0", says=[option])

    def test_no_number_wraps_around(self):
        allowed = "allowed: whole numbers from 0 to 2^64 - 1"
        for words in (
            "compress --op natural a b --seed",
            "bench operators --count",
            "consensus --rounds",
            "inspect a --max-count",
            "list --threads",
        ):
            for number in ("-1", "99999999999999999999"):
                if number != "-1" and "--threads" in words:
                    continue
                self.fails(2, *words.split(), number, says=[words.split()[-1], number, allowed])

    def test_what_is_below_no_heading_is_named(self):
        self.fails(2, "bench", "operator", says=["no command 'bench operator'; known: codecs", "operators"])
        self.fails(2, "bench", "operators", "more", says=["more", "see laconic bench operators --help"])

    def test_missing_input_is_named(self):
        missing = self.path("no.npy")
        for command in [["compress", "--op", "natural"], ["decompress"]]:
            self.fails(2, *command, missing, self.path("x"), says=[str(missing), "No such file"])
        self.fails(2, "inspect", missing, says=[str(missing)])
        self.fails(2, "inspect", self.folder, says=[str(self.folder), "directory"])

    def test_arrays_it_does_not_take_are_refused_with_advice(self):
        self.refuse(np.asfortranarray(np.ones((3, 4), "float32")), "Fortran", "ascontiguousarray")
        self.refuse(np.ones(3, ">f4"), ">f4", "little-endian", "astype")
        self.refuse(np.ones(3, "int64"), "<i8", "float32")
        self.refuse(np.ones(3, "bool"), "|b1")
        self.refuse(np.ones(3, "complex64"), "<c8")
        self.refuse(np.zeros(3, [("a", "<f4"), ("b", "<i4")]), "('a', '<f4')", "float32")
        self.refuse(np.array([1, "x"], object), "|O")
        self.refuse(np.array([1, 1e30, -1e39, 1e40]), "entry 2", "beyond the range of float32")

    def refuse(self, array, *says):
        source = self.save(array)
        frame = self.path("x.lac")
        self.fails(2, "compress", "--op", "natural", source, frame, says=[str(source), *says])
        self.assertFalse(frame.exists())

    def test_a_message_is_one_line_whatever_the_file_is_called(self):
        self.fails(2, "inspect", self.path("a\nb\x1b[31m"), says=["a?b?[31m"])


class HostileArrays(CliTest):
    """Bytes that are no .npy file are refused in one sentence, quickly and without their memory."""

    def header(self, shape="(3,)", descr="'<f4'", order="False"):
        return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"

    def refuse(self, data, *says):
        self.path("in.npy").write_bytes(data)
        frame = self.path("x.lac")
        self.fails(3, "compress", "--op", "natural", self.path("in.npy"), frame, says=says)

    def test_the_helper_makes_good_files_too(self):
        for version in [1, 2, 3]:
            data = npy_with(self.header() + "  \n", bytes(12), version)
            self.path("in.npy").write_bytes(data)
            self.ok("compress", "--op", "natural", self.path("in.npy"), self.path("x.lac"))

    def test_lengths_that_do_not_fit(self):
        self.refuse(npy_with(self.header(), bytes(11)), "11 bytes", "takes 12")
        self.refuse(npy_with(self.header(), bytes(13)), "13 bytes", "takes 12")
        self.refuse(npy_with(self.header(), b"", length=60000), "60000")
        self.refuse(npy_with(self.header(), b"", version=2, length=2**32 - 1), "4294967295")
        self.refuse(npy_with(self.header("(1000000000000,)"), bytes(12)), "4000000000000")

    def test_shapes_that_overflow(self):
        for shape in [
            "(4294967296, 4294967296)",
            "(9223372036854775808, 2)",
            "(0, 18446744073709551615, 18446744073709551615)",
        ]:
            self.refuse(npy_with(self.header(shape), b""), "more than any memory holds")
        for shape in [
            "(18446744073709551616,)",
            "(-1,)",
            "(1e3,)",
            "(1,,)",
            "(1",
            "3",
            "(" + "1," * 65,
        ]:
            self.refuse(npy_with(self.header(shape), bytes(12)), "header")

    def test_headers_that_are_none(self):
        for text in [
            "",
            "{",
            "{}",
            "[]",
            "{'descr': '<f4'}",
            "{'descr': '<f4",
            "{'descr': [('a', '<f4'), }",
            self.header() + "x",
            self.header(order="1"),
            self.header().replace("shape", "form"),
            "\0" * 50,
        ]:
            self.refuse(npy_with(text, bytes(12)), "header")

    def test_foreign_files(self):
        self.refuse(b"", "not a .npy file")
        self.refuse(b"PK\x03\x04" + bytes(100), "not a .npy file")
        self.refuse(npy_with(self.header(), bytes(12), version=4), "version 4")

    def test_every_truncation(self):
        whole = npy_bytes(np.ones(3, "float32"))
        for size in range(len(whole)):
            self.refuse(whole[:size])


class HostileFrames(CliTest):
    def small(self):
        return self.compress(np.arange(16, dtype="float32")).read_bytes()

    def refuse(self, data, *says):
        frame = self.path("bad.lac")
        frame.write_bytes(data)
        self.fails(3, "inspect", frame, says=[str(frame), *says])

    def test_every_flipped_bit_is_found(self):
        whole = self.small()
        self.assertLess(len(whole), 100)
        for position, flip in itertools.product(range(len(whole)), [1, 16, 128, 255]):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            self.refuse(damaged)

    def test_every_truncation_and_extension_is_found(self):
        whole = self.small()
        for size in range(len(whole)):
            self.refuse(whole[:size])
        self.refuse(whole + b"\0")

    def test_random_bytes_are_refused(self):
        draw = random.Random(1)
        for size in [0, 1, 4, 12, 100, 10_000]:
            self.refuse(draw.randbytes(size))
            self.refuse(b"LAC\1" + draw.randbytes(size))

    def test_decompress_refuses_as_well_and_writes_nothing(self):
        damaged = bytearray(self.small())
        damaged[40] ^= 1
        self.path("bad.lac").write_bytes(damaged)
        self.fails(3, "decompress", self.path("bad.lac"), self.path("out.npy"), says=["checksum"])
        self.assertFalse(self.path("out.npy").exists())

    def test_lies_with_a_right_checksum_are_refused_or_harmless(self):
        for op, position in itertools.product(["natural", "natural+entropy"], range(4, 90)):
            whole = bytearray(self.compress(np.arange(16, dtype="float32"), op=op).read_bytes())
            if position >= len(whole) - 4:
                continue
            whole[position] ^= 0xFF
            whole[-4:] = struct.pack("<I", crc32c(whole[:-4]))
            self.path("lie.lac").write_bytes(whole)
            result = run("decompress", self.path("lie.lac"), self.path("out.npy"))
            self.assertIn(result.returncode, [0, 3], result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1 if result.returncode else 0)

    def test_a_part_of_an_array_is_no_array(self):
        whole = self.small()
        header = whole.index(b"natural") + len("natural") + 8 + 3  # after seed, step, rank, ranks
        self.assertEqual(whole[header : header + 3], bytes([0, 1, 16]))  # dtype, shape
        longer = bytearray(whole)
        longer[header + 2] = 17
        longer[-4:] = struct.pack("<I", crc32c(longer[:-4]))
        self.path("part.lac").write_bytes(longer)
        self.ok("inspect", self.path("part.lac"))
        self.fails(3, "decompress", self.path("part.lac"), self.path("out.npy"), says=["part"])

    def test_max_count_refuses_larger_arrays(self):
        frame, target = self.compress(np.ones(100, "float32")), self.path("out.npy")
        self.fails(3, "decompress", "--max-count", 99, frame, target, says=["99"])
        self.assertFalse(target.exists())
        self.ok("decompress", "--max-count", 100, frame, target)


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
        command = [PROGRAM, "compress", "--op", "natural", "/dev/stdin", str(self.path("x.lac"))]
        done = subprocess.run(command, input=source.read_bytes(), capture_output=True, timeout=60)
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
            result = subprocess.run(
                [PROGRAM, "list"], stdout=full, stderr=subprocess.PIPE, text=True
            )
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Alaconic: [^\n]+No space left[^\n]+\n\Z")

    def test_too_little_memory_is_one_sentence(self):
        self.fails(1, "bench", "operators", "--count", 4 * 10**18, says=["memory"])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = sys.argv.pop(1)
    if not PROGRAM or not shutil.which(PROGRAM):
        sys.exit("usage: cli_test.py path/to/laconic, or set LACONIC")
    unittest.main()
