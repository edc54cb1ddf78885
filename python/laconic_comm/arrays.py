"""NumPy arrays to frames and back, without torch. A frame can be read by every other door of the project."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

from . import _library as l
from ._arguments import a_text, a_whole
from .errors import DataError, UsageError

_DTYPES = {np.dtype(np.float32): l.FLOAT32, np.dtype(np.float16): l.FLOAT16, np.dtype(np.float64): l.FLOAT64}
_NAMES = {l.FLOAT32: "float32", l.FLOAT16: "float16", l.FLOAT64: "float64", l.BFLOAT16: "bfloat16"}


class _Scratch:
    """Working memory for the length of a with."""

    def __enter__(self) -> c.c_void_p:
        self._handle = l.library().handle("scratch_create", 1)
        return self._handle

    def __exit__(self, *_: object) -> None:
        l.library().scratch_free(self._handle)


class _Frame:
    """A frame that was read, for the length of a with; the bytes stay alive beside it."""

    def __init__(self, data: Any, max_count: int) -> None:
        try:
            self._bytes = bytes(memoryview(data))
        except TypeError:
            raise UsageError(f"a frame of type {type(data).__name__}; allowed: bytes, or what has them as a buffer") from None
        self._most = a_whole(max_count, "max_count", least=1)

    def __enter__(self) -> tuple[c.c_void_p, l.FrameInfo]:
        lib = l.library()
        self._handle = lib.handle("frame_read", c.cast(self._bytes, l.pointer), len(self._bytes), self._most)
        info = l.FrameInfo()
        lib.frame_describe(self._handle, c.byref(info))
        return self._handle, info

    def __exit__(self, *_: object) -> None:
        l.library().frame_free(self._handle)


def compress(array: Any, op: str, *, seed: int = 0, step: int = 0, rank: int = 0) -> bytes:
    """One array of floats as one frame by an operator such as ``"topk:0.01+natural"``.

    The same array, operator, seed, step and rank give the same bytes on every machine. An array
    with NaN or Inf is sent as it is. float16 and float64 pass through float32 and come back in
    their own type; a float64 beyond what float32 holds is refused.
    """
    given = _as_array(array)
    if given.dtype not in _DTYPES:
        raise UsageError(f"an array of {given.dtype}; allowed: float32 float16 float64")
    spec = a_text(op, "op")
    lib = l.library()
    x = _as_float32(given)
    shape = (c.c_uint64 * given.ndim)(*given.shape)
    header = l.Header(
        seed=a_whole(seed, "seed"), step=a_whole(step, "step"), rank=a_whole(rank, "rank"),
        dtype=_DTYPES[given.dtype], ndim=given.ndim, shape=shape,
    )  # fmt: skip
    operator = lib.handle("operator_parse", spec)
    try:
        capacity, size, finite = l.size_t(), l.size_t(), c.c_int()
        lib.frame_max_size(operator, x.size, given.ndim, c.byref(capacity))
        out = np.empty(capacity.value, np.uint8)
        with _Scratch() as scratch:
            lib.frame_write(
                operator, x.ctypes.data, x.size, c.byref(header),
                out.ctypes.data, out.size, c.byref(size), c.byref(finite), scratch,
            )  # fmt: skip
        return out[: size.value].tobytes()
    finally:
        lib.operator_free(operator)


# In this machine's order of bytes. What it cannot be made of raises errors of whoever made it.
def _as_array(array: Any) -> np.ndarray:
    try:
        given = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"a {type(array).__name__} that is no array ({error}); allowed: what NumPy takes for one") from None
    return given if given.dtype.isnative else given.astype(given.dtype.newbyteorder("="))


def _as_float32(given: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(given, dtype=np.float32)
    if given.dtype == np.float64:
        lost = np.isinf(x).reshape(given.shape) & np.isfinite(given)
        if lost.any():
            raise UsageError(f"entry {int(lost.argmax())} of the float64 array is finite but beyond the range of float32 (3.4e38)")
    return x


def decompress(data: bytes | bytearray | memoryview, *, max_count: int = 2**31) -> np.ndarray:
    """The array of a frame, in its own shape and type (bfloat16 as float32; what float16 cannot hold stays at its ends).

    Frames of arrays of more than ``max_count`` entries are refused before any memory is taken for them: a few bytes may claim many.
    """
    with _Frame(data, max_count) as (frame, info), _Scratch() as scratch:
        if not info.complete:
            raise DataError(f"the frame holds a part of an array of {info.count} entries, not all of it")
        shape = tuple(info.shape[: info.ndim])
        if len(shape) > _most_dimensions():
            raise DataError(f"the frame's array has {len(shape)} dimensions; NumPy's have up to {_most_dimensions()}")
        y = np.zeros(info.count, np.float32)
        l.library().frame_add(frame, 1.0, y.ctypes.data, y.size, scratch)
        return _in_its_type(y.reshape(shape), _NAMES[info.dtype])


# 32 before NumPy 2.
def _most_dimensions() -> int:
    return 64 if int(np.__version__.split(".")[0]) >= 2 else 32


def _in_its_type(y: np.ndarray, name: str) -> np.ndarray:
    if name in ("float32", "bfloat16"):
        return y
    if name == "float16":  # what an operator has rounded up is still finite; Inf stays Inf
        largest = np.float32(np.finfo(np.float16).max)
        y = np.where(np.isinf(y), y, np.clip(y, -largest, largest))
    return y.astype(name)


def inspect(data: bytes | bytearray | memoryview, *, max_count: int = 2**31) -> dict[str, Any]:
    """What a frame tells about itself: operators, shape, dtype, keys and sizes."""
    with _Frame(data, max_count) as (_, info):
        told = {name: getattr(info, name) for name, _ in l.FrameInfo._fields_}
        del told["struct_size"], told["ndim"]
        return {
            **told,
            "spec": info.spec.decode(),
            "shape": tuple(info.shape[: info.ndim]),
            "dtype": _NAMES[info.dtype],
            "finite": bool(info.finite),
            "complete": bool(info.complete),
        }


def operators() -> dict[str, str]:
    """The stages that operators are chains of, and what each does."""
    return l.library().entries(l.OPERATORS)


def recipes() -> dict[str, str]:
    """The built-in methods by name, and what each is."""
    return l.library().entries(l.RECIPES)
