"""liblaconic by ctypes: the structs and functions of laconic/laconic_c.h, whose comments are the manual."""

from __future__ import annotations

import ctypes as c
import os
import pathlib
from typing import Any

from .errors import DataError, Error, TransportError, UsageError

ABI = 2
FLOAT32, FLOAT16, FLOAT64, BFLOAT16 = range(4)
OPERATORS, MEMORIES, LAYOUTS, EXCHANGES, TRANSPORTS, EXAMPLES, CPUS, RECIPES = range(8)

size_t = c.c_size_t
pointer = c.c_void_p
text = c.c_char_p
status_t = "status"  # what a function returns that raises unless it is 0


class Sized(c.Structure):
    """A struct that begins with its own size."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=c.sizeof(type(self)), **fields)


class Keys(c.Structure):
    _fields_ = [(name, c.c_uint64) for name in ("seed", "step", "rank", "first")]


class Header(Sized):
    _fields_ = [
        ("struct_size", size_t),
        *((name, c.c_uint64) for name in ("seed", "step", "rank")),
        ("dtype", c.c_int),
        ("ndim", size_t),
        ("shape", c.POINTER(c.c_uint64)),
        ("ranks", c.c_uint64),
    ]


class FrameInfo(Sized):
    _fields_ = [
        ("struct_size", size_t),
        ("spec", text),
        ("count", c.c_uint64),
        ("ndim", size_t),
        ("shape", c.POINTER(c.c_uint64)),
        ("dtype", c.c_int),
        ("finite", c.c_int),
        ("complete", c.c_int),
        *((name, c.c_uint64) for name in ("first", "seed", "step", "rank", "payload_bytes", "wire_bytes")),
        ("section_count", size_t),
        ("ranks", c.c_uint64),
        ("crc", c.c_uint32),
    ]


class Send(c.Structure):
    _fields_ = [("to", c.c_int), ("bytes", pointer), ("size", size_t)]


class Receive(c.Structure):
    _fields_ = [("source", c.c_int), ("bytes", pointer), ("size", size_t)]


ExchangeCallback = c.CFUNCTYPE(
    c.c_int, pointer, c.POINTER(Send), size_t, c.POINTER(Receive), size_t, c.c_double, text
)


StartCallback = c.CFUNCTYPE(
    c.c_int, pointer, c.c_int, c.POINTER(Send), size_t, c.POINTER(Receive), size_t, c.POINTER(pointer)
)
TestCallback = c.CFUNCTYPE(c.c_int, pointer, pointer, c.POINTER(c.c_int))
CancelCallback = c.CFUNCTYPE(None, pointer, pointer)


class Callbacks(Sized):
    _fields_ = [
        ("struct_size", size_t),
        ("self", pointer),
        ("rank", c.c_int),
        ("size", c.c_int),
        ("exchange", ExchangeCallback),
        ("all_reduce_float", pointer),
        ("start", StartCallback),
        ("test", TestCallback),
        ("cancel", CancelCallback),
    ]


class Tensor(c.Structure):
    _fields_ = [("name", text), ("ndim", size_t), ("shape", c.POINTER(c.c_uint64))]


class MethodOptions(Sized):
    _fields_ = [
        ("struct_size", size_t),
        ("recipe", text),
        ("tensors", c.POINTER(Tensor)),
        ("tensor_count", size_t),
        ("start", c.POINTER(pointer)),
        ("seed", c.c_uint64),
        ("timeout_seconds", c.c_double),
        ("threads", c.c_uint),
        ("engine", c.c_int),
        ("unit_bytes", size_t),
        ("guard", text),
    ]


class Step(Sized):
    _fields_ = [
        ("struct_size", size_t),
        ("step", c.c_uint64),
        ("lr", c.c_float),
        ("scale", c.c_float),
        ("flags", c.c_uint32),
        ("parameters", c.POINTER(pointer)),
        ("momentum", c.POINTER(pointer)),
        ("plain", c.c_int),
    ]


class Stats(Sized):
    BYTES = ("payload", "wire", "traffic", "rounds", "dense", "up", "down", "vote")
    SECONDS = ("compress", "decompress", "exchange", "exposed", "update")
    _fields_ = [
        ("struct_size", size_t),
        *((name if name == "rounds" else name + "_bytes", c.c_uint64) for name in BYTES),
        *((name + "_seconds", c.c_double) for name in SECONDS),
        ("flags", c.c_uint32),
        ("finite", c.c_int),
        ("lane", c.c_int),
        ("advised_lane", c.c_int),
        ("predicted_gain", c.c_double),
        ("measured_gain", c.c_double),
    ]


class TensorCost(Sized):
    _fields_ = [
        ("struct_size", size_t),
        ("payload_bytes", c.c_uint64),
        ("dense_bytes", c.c_uint64),
        ("rests", c.c_int),
    ]


_traits = (text, [c.c_int, size_t])
_buffer = [pointer, size_t, c.POINTER(size_t)]

# Name: (what it returns, its arguments).
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "last_error": (text, []),
    "last_rank": (c.c_int, []),
    "set_error": (None, [text]),
    "abi": (c.c_uint, []),
    "version": (text, []),
    "data_version": (c.c_uint, []),
    "count": (size_t, [c.c_int]),
    "name": _traits,
    "summary": _traits,
    "paper": _traits,
    "cpu": (text, []),
    "scratch_create": (status_t, [c.c_uint, c.POINTER(pointer)]),
    "scratch_free": (None, [pointer]),
    "operator_parse": (status_t, [text, c.POINTER(pointer)]),
    "operator_free": (None, [pointer]),
    "operator_spec": (text, [pointer]),
    "frame_max_size": (status_t, [pointer, size_t, size_t, c.POINTER(size_t)]),
    "frame_write": (
        status_t,
        [pointer, pointer, size_t, c.POINTER(Header), *_buffer, c.POINTER(c.c_int), pointer],
    ),
    "frame_read": (status_t, [pointer, size_t, c.c_uint64, c.POINTER(pointer)]),
    "frame_free": (None, [pointer]),
    "frame_describe": (status_t, [pointer, c.POINTER(FrameInfo)]),
    "frame_check": (status_t, [pointer, pointer]),
    "frame_add": (status_t, [pointer, c.c_float, pointer, size_t, pointer]),
    "recipe_json": (status_t, [text, *_buffer]),
    "recipe_check": (status_t, [text]),
    "plan": (status_t, [text, c.POINTER(text)]),
    "transport_free": (None, [pointer]),
    "transport_from_callbacks": (status_t, [c.POINTER(Callbacks), c.POINTER(pointer)]),
    "sockets_transport": (status_t, [c.c_int, c.c_int, c.POINTER(c.c_int), c.POINTER(pointer)]),
    "method_create": (status_t, [pointer, c.POINTER(MethodOptions), c.POINTER(pointer)]),
    "method_free": (None, [pointer]),
    "method_set_transport": (status_t, [pointer, pointer]),
    "averages_gradients": (status_t, [pointer, c.POINTER(c.c_int)]),
    "residual_norm": (status_t, [pointer, c.POINTER(c.c_double)]),
    "begin": (status_t, [pointer, c.POINTER(Step)]),
    "submit": (
        status_t,
        [pointer, c.POINTER(size_t), c.POINTER(pointer), pointer, size_t, c.c_int, c.POINTER(size_t)],
    ),
    "wait": (status_t, [pointer, size_t, c.c_double, c.POINTER(c.c_int)]),
    "finish": (status_t, [pointer, c.POINTER(Stats)]),
    "commit": (status_t, [pointer]),
    "rollback": (status_t, [pointer]),
    "abort": (status_t, [pointer, text]),
    "tensor_stats": (status_t, [pointer, size_t, c.POINTER(TensorCost)]),
    "before_update": (
        status_t,
        [pointer, c.POINTER(pointer), c.POINTER(pointer), c.POINTER(Step), c.POINTER(Stats)],
    ),
    "after_update": (status_t, [pointer, c.POINTER(pointer), c.POINTER(Step), c.POINTER(Stats)]),
    "finish_round": (status_t, [pointer, c.POINTER(pointer), c.POINTER(Step), c.POINTER(Stats)]),
    "set_back": (status_t, [pointer, c.POINTER(c.c_int)]),
    "method_save": (status_t, [pointer, c.POINTER(pointer), *_buffer]),
    "method_load": (status_t, [pointer, pointer, size_t, c.c_int, c.POINTER(pointer)]),
    "state_get": (status_t, [pointer, text, pointer, size_t]),
    "states_redistribute": (
        status_t,
        [c.POINTER(pointer), c.POINTER(size_t), size_t, c.c_int, c.c_int, *_buffer],
    ),
}

_FAMILIES = {1: Error, 2: UsageError, 3: DataError, 4: TransportError}


def where() -> str:
    """The file of the library: LACONIC_LIBRARY if it is set, else the one beside this file."""
    beside = pathlib.Path(__file__).parent / "lib" / "liblaconic.so.0"
    return os.environ.get("LACONIC_LIBRARY") or str(beside)


class Library:
    """Its functions without their prefix; those with a status raise what it stands for."""

    def __init__(self, path: str) -> None:
        try:
            self._dll = c.CDLL(path)
        except OSError as error:
            raise UsageError(f"cannot load the library: {error}; LACONIC_LIBRARY names another file") from None
        self.path = path
        for name, (result, arguments) in FUNCTIONS.items():
            self._add(name, result, arguments)
        if self.abi() != ABI:
            raise UsageError(f"'{path}' has the interface {self.abi()}; allowed: {ABI}")

    def _add(self, name: str, result: Any, arguments: list[Any]) -> None:
        function = getattr(self._dll, "laconic_" + name, None)
        if function is None:  # a library of the same interface may lack what was added to it later
            return
        function.restype, function.argtypes = c.c_int if result is status_t else result, arguments
        if result is not status_t:
            setattr(self, name, function)
            return

        def checked(*values: Any) -> None:
            status = function(*values)
            if status:
                rank = self.last_rank()
                sentence = self.last_error().decode(errors="replace")
                raise _FAMILIES.get(status, Error)(sentence, rank if rank >= 0 else None)

        setattr(self, name, checked)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'{self.__dict__.get('path')}' has no laconic_{name}")

    def handle(self, create: str, *arguments: Any) -> c.c_void_p:
        """What a function gives through its last argument."""
        made = pointer()
        getattr(self, create)(*arguments, c.byref(made))
        return made

    def fill(self, function: str, *arguments: Any) -> bytearray:
        """Bytes of a function that tells their size when it has no buffer."""
        size = size_t()
        getattr(self, function)(*arguments, None, 0, c.byref(size))
        out = bytearray(size.value)
        buffer = (c.c_char * len(out)).from_buffer(out)
        getattr(self, function)(*arguments, buffer, len(out), c.byref(size))
        del buffer
        del out[size.value :]
        return out

    def entries(self, kind: int) -> dict[str, str]:
        """Name and sentence of everything of a kind."""
        return {self.name(kind, i).decode(): self.summary(kind, i).decode() for i in range(self.count(kind))}


_loaded: Library | None = None


def library() -> Library:
    """The library, loaded at the first call."""
    global _loaded
    if _loaded is None:
        _loaded = Library(where())
    return _loaded
