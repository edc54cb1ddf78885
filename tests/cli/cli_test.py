"""Tests of the program as a user meets it: files in, files out, what it reports, one sentence per mistake.

Run: python3 cli_test.py path/to/laconic [unittest options], or with the path in $LACONIC.
"""

import itertools
import json
import random

import numpy as np

from cli_case import GOLDEN, CliTest, main, run

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


if __name__ == "__main__":
    main()
