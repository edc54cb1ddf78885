"""NumPy arrays to frames and back, without torch."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import laconic_comm as lc


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
