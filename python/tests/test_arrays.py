"""NumPy arrays to frames and back, without torch."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import laconic_comm as lc
from laconic_comm import _library


def random(shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (7,), (3, 5, 2), (5000,)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_identity_gives_back_the_array(shape, dtype):
    x = random(shape, np.float32).astype(dtype)
    y = lc.decompress(lc.compress(x, "identity"))
    assert y.dtype == x.dtype and y.shape == x.shape
    assert (y == x.astype(np.float32).astype(dtype)).all()


def test_same_seed_same_bytes():
    x = random(1000)
    one = lc.compress(x, "natural", seed=1)
    assert one == lc.compress(x, "natural", seed=1) != lc.compress(x, "natural", seed=2)
    assert one == lc.compress(np.asfortranarray(x.reshape(10, 100)).reshape(-1), "natural", seed=1)


def test_the_largest_entries_stay():
    x = random((30, 100))
    y = lc.decompress(lc.compress(x, "topk:0.01"))
    kept = np.argsort(-np.abs(x), axis=None)[:30]
    assert (y.ravel()[kept] == x.ravel()[kept]).all() and np.count_nonzero(y) == 30


def test_arrays_that_are_not_finite_stay_as_they_are():
    x = np.array([1.5, np.nan, -np.inf], np.float32)
    data = lc.compress(x, "topk:0.5")
    assert np.array_equal(lc.decompress(data), x, equal_nan=True)
    assert not lc.inspect(data)["finite"]


def test_frames_tell_about_themselves():
    told = lc.inspect(lc.compress(random((3, 4), np.float64), "topk:0.5+natural", seed=5, step=6, rank=7))
    assert told["shape"] == (3, 4) and told["dtype"] == "float64" and told["spec"] == "topk:0.5+natural"
    assert (told["seed"], told["step"], told["rank"], told["count"]) == (5, 6, 7, 12)
    assert told["wire_bytes"] > told["payload_bytes"] > 0


def test_what_there_is():
    assert {"topk", "natural"} <= set(lc.operators())
    assert {"dense", "sbc1"} <= set(lc.recipes())
    assert all(lc.recipes().values())


def test_wrong_arguments_are_named():
    with pytest.raises(lc.UsageError, match="topkk"):
        lc.compress(random(3), "topkk")
    with pytest.raises(lc.UsageError, match="int64; allowed: float32"):
        lc.compress(np.arange(3), "natural")


@pytest.mark.parametrize("op", [None, 5, b"natural", "natural\0+entropy"])
def test_an_operator_is_text(op):
    with pytest.raises(lc.UsageError, match="op is .*; allowed: text"):
        lc.compress(random(3), op)


@pytest.mark.parametrize("key", ["seed", "step", "rank"])
@pytest.mark.parametrize("value", [-1, 2**64, 1.5, "1", None])
def test_keys_are_whole_numbers_and_none_wraps_around(key, value):
    with pytest.raises(lc.UsageError, match=f"{key} is .*; allowed: whole numbers from 0 to"):
        lc.compress(random(3), "natural", **{key: value})
    assert lc.inspect(lc.compress(random(3), "natural", **{key: np.int64(7)}))[key] == 7


@pytest.mark.parametrize("data", [5, -1, None, "LAC", [76, 65]])
@pytest.mark.parametrize("read", [lc.decompress, lc.inspect])
def test_what_is_not_bytes_is_no_frame(read, data):
    with pytest.raises(lc.UsageError, match="a frame of type"):
        read(data)


@pytest.mark.parametrize("op", ["natural", "qsgd:4", "randomk:0.1"])
def test_what_leaves_the_range_of_float16_stays_finite(op):
    x = np.full(100, 65504, np.float16)
    assert np.isfinite(lc.decompress(lc.compress(x, op))).all()
    assert np.isinf(lc.decompress(lc.compress(np.array([np.inf, 1], np.float16), op))).tolist() == [True, False]


def test_a_float64_beyond_float32_is_refused_as_by_the_program():
    with pytest.raises(lc.UsageError, match="entry 2 of the float64 array is finite but beyond the range of float32"):
        lc.compress(np.array([1, np.inf, -1e300, 1e300]), "natural")


def frame_of_rests(shape, counted, dtype=0):
    """By docs/frame.md: one section that rests, or none."""

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    head = b"LAC" + bytes([_library.library().data_version(), 0, 1, 7]) + b"natural" + bytes(11) + bytes([dtype]) + varint(len(shape))
    head += b"".join(map(varint, shape))
    table = bytes([1, 0, 0]) + varint(counted) + bytes([2, 0]) if counted else bytes([0])
    frame = head + table + len(table).to_bytes(4, "little")
    crc = 0xFFFFFFFF
    for byte in frame:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return frame + (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


def test_a_part_of_an_array_is_no_array():
    assert lc.decompress(frame_of_rests([10], 10)).tolist() == [0] * 10
    for counted in (0, 5):
        data = frame_of_rests([10], counted)
        assert not lc.inspect(data)["complete"]
        with pytest.raises(lc.DataError, match="a part of an array of 10 entries"):
            lc.decompress(data)


def test_frames_claim_no_more_than_is_allowed():
    deep = frame_of_rests([1] * 64, 1)
    if int(np.__version__.split(".")[0]) < 2:
        with pytest.raises(lc.DataError, match="64 dimensions; NumPy's have up to 32"):
            lc.decompress(deep)
    else:
        assert lc.decompress(deep).ndim == 64
    large = frame_of_rests([2**31], 2**31, dtype=2)
    for read in (lc.decompress, lc.inspect):
        with pytest.raises(lc.DataError, match="more than 1000 entries"):
            read(large, max_count=1000)
        with pytest.raises(lc.UsageError, match="max_count is 0"):
            read(large, max_count=0)


@pytest.mark.parametrize("name", ["f4", "f8", "f2"])
def test_either_order_of_bytes(name):
    x = random(30).reshape(5, 6)
    swapped = x.astype(">" + name)
    back = lc.decompress(lc.compress(swapped, "identity"))
    assert back.dtype == np.dtype(name) and (back == swapped).all()


class NoArray:
    def __array__(self, *_, **__):
        raise RuntimeError("use tensor.detach().numpy() instead")


@pytest.mark.parametrize("value", [[[1.0], [1.0, 2.0]], NoArray()])
def test_what_is_no_array_is_named(value):
    with pytest.raises(lc.UsageError, match=f"a {type(value).__name__} that is no array"):
        lc.compress(value, "natural")


def test_damaged_frames_are_refused():
    data = bytearray(lc.compress(random(100), "natural"))
    for damaged in (b"", data[:-1], bytes(50), data[:60] + bytes([data[60] ^ 1]) + data[61:]):
        with pytest.raises(lc.DataError):
            lc.decompress(damaged)


def test_the_library_can_be_told():
    script = "import laconic_comm as lc; lc.operators()"
    environment = {"LACONIC_LIBRARY": "/nowhere/lib.so", "PYTHONPATH": str(lc.__path__[0]) + "/.."}
    told = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert told.returncode and "UsageError: cannot load the library: /nowhere/lib.so" in told.stderr


def test_torch_is_not_needed():
    script = "import sys, laconic_comm as lc; lc.recipes(); print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, check=True,
                          cwd=str(lc.__path__[0]) + "/..")  # fmt: skip
    assert json.loads(told.stdout.lower()) is False
