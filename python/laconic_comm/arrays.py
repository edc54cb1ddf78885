"""NumPy arrays to frames and back, without torch. A frame can be read by every other door of the project."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

from . import _library as l
from .errors import UsageError

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

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._bytes = bytes(data)

    def __enter__(self) -> tuple[c.c_void_p, l.FrameInfo]:
        lib = l.library()
        self._handle = lib.handle("frame_read", c.cast(self._bytes, l.pointer), len(self._bytes), 0)
        info = l.FrameInfo()
        lib.frame_describe(self._handle, c.byref(info))
        return self._handle, info

    def __exit__(self, *_: object) -> None:
        l.library().frame_free(self._handle)


def compress(array: Any, op: str, *, seed: int = 0, step: int = 0, rank: int = 0) -> bytes:
    """One array of floats as one frame by an operator such as ``"topk:0.01+natural"``.

    The same array, operator, seed, step and rank give the same bytes on every machine. An array
    with NaN or Inf is sent as it is. float16 and float64 pass through float32 and come back in
    their own type.
    """
    given = np.asarray(array)
    if given.dtype not in _DTYPES:
        raise UsageError(f"an array of {given.dtype}; allowed: float32 float16 float64")
    lib = l.library()
    x = np.ascontiguousarray(given, dtype=np.float32)
    shape = (c.c_uint64 * given.ndim)(*given.shape)
    header = l.Header(
        seed=seed, step=step, rank=rank, dtype=_DTYPES[given.dtype], ndim=given.ndim, shape=shape
    )
    operator = lib.handle("operator_parse", op.encode())
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


def decompress(data: bytes | bytearray | memoryview) -> np.ndarray:
    """The array of a frame, in its own shape and type (bfloat16 as float32)."""
    with _Frame(data) as (frame, info), _Scratch() as scratch:
        y = np.zeros(info.count, np.float32)
        l.library().frame_add(frame, 1.0, y.ctypes.data, y.size, scratch)
        name = _NAMES[info.dtype]
        shaped = y.reshape(info.shape[: info.ndim])
        return shaped if name in ("float32", "bfloat16") else shaped.astype(name)


def inspect(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """What a frame tells about itself: operators, shape, dtype, keys and sizes."""
    with _Frame(data) as (_, info):
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
