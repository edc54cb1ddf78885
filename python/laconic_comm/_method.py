"""A recipe at work on one rank: the handles of the C ABI as objects that end when they are closed."""

from __future__ import annotations

import contextlib
import ctypes as c
import json
import os
from typing import Any, Sequence

from . import _library as l
from ._arguments import MOST_THREADS, a_text, a_whole, seconds, texts
from .errors import Error, TransportError, UsageError

_STRETCH = 0.25  # seconds of waiting in the library at a time


class Transport:
    """A rank's end. ``lost`` is who is known to be at fault, where the library cannot know."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.lost: int | None = None
        self.handle: c.c_void_p | None = None

    def left(self, seconds: float) -> list[int]:
        """Who is seen to have left, waited for so long unless somebody has. Where that cannot be seen: nobody."""
        del seconds
        return []

    def close(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            l.library().transport_free(handle)


def pointers(addresses: Sequence[int]) -> Any:
    return (l.pointer * len(addresses))(*addresses)


def recipe_text(
    name: str, recipe: str | os.PathLike[str] | dict[str, Any] | None, options: dict[str, Any], usual: dict[str, Any]
) -> str:
    """A recipe by name, file, JSON text or dict, or one made of the options that were given."""
    given = {key: value for key, value in options.items() if value is not None}
    if recipe is not None:
        if given:
            raise UsageError(f"a recipe and also {' '.join(sorted(given))}; allowed: one or the other")
        if isinstance(recipe, (str, os.PathLike)):
            return os.fspath(recipe)
        if not isinstance(recipe, dict):
            raise UsageError(f"a recipe of type {type(recipe).__name__}; allowed: a name, a .json file, JSON text or a dict")
        return _as_json(recipe)
    if "rules" in given:
        given["rules"] = texts(given["rules"], "rules")
    return _as_json({"name": name, **usual, **given})


def _as_json(recipe: dict[str, Any]) -> str:
    for key, value in recipe.items():
        try:
            json.dumps({key: value}, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise UsageError(f"a recipe's {key!r} is {value!r}; allowed: what JSON has") from None
    return json.dumps(recipe)


def check_running(seed: Any, timeout: Any, threads: Any, guard: Any = None) -> None:
    """What a Method will be given, found wrong before ranks meet."""
    a_whole(seed, "seed")
    seconds(timeout)
    a_whole(threads, "threads", 1, MOST_THREADS)
    if guard is not None:
        a_text(guard, "guard")


def recipe_of(text: str) -> dict[str, Any]:
    """A recipe with everything that may be left out. Raises UsageError for one that cannot be."""
    whole = l.library().fill("recipe_json", a_text(text, "recipe"))
    return dict(json.loads(bytes(whole).rstrip(b"\0")))


class Method:
    """All ranks make one at the same time; it raises on all of them unless they agree. The transport is closed with it."""

    def __init__(
        self,
        transport: Transport,
        recipe: str,
        tensors: Sequence[tuple[str, Sequence[int]]],
        start: Sequence[int] | None = None,
        seed: int = 0,
        timeout: float = 60,
        threads: int = 1,
        unit_bytes: int = 0,
        guard: str | None = None,
    ) -> None:
        self.transport = transport
        shapes = [(c.c_uint64 * len(shape))(*shape) for _, shape in tensors]
        names = [name.encode() for name, _ in tensors]
        listed = [l.Tensor(name, len(shape), shape) for name, shape in zip(names, shapes)]
        options = l.MethodOptions(
            recipe=a_text(recipe, "recipe"),
            tensors=(l.Tensor * len(listed))(*listed),
            tensor_count=len(listed),
            start=None if start is None else pointers(start),
            seed=a_whole(seed, "seed"),
            timeout_seconds=seconds(timeout),
            threads=a_whole(threads, "threads", 1, MOST_THREADS),
            unit_bytes=unit_bytes,
            guard=None if guard is None else a_text(guard, "guard"),
        )
        self._last_part: int | None = None
        self._handle: c.c_void_p | None = None
        try:
            self._handle = self._named(l.library().handle, "method_create", transport.handle, c.byref(options))
        except BaseException:
            transport.close()
            raise

    def _named(self, function: Any, *arguments: Any) -> Any:
        """Calls it; an error of the transport names who is lost."""
        try:
            return function(*arguments)
        except TransportError as error:
            if error.rank is None:
                error.rank = self.transport.lost
            raise

    def _call(self, function: str, *arguments: Any) -> None:
        if self._handle is None:
            raise UsageError("this state was closed")
        self._named(getattr(l.library(), function), self._handle, *arguments)

    def _ask(self, function: str, answer: Any) -> Any:
        self._call(function, c.byref(answer))
        return answer.value

    @property
    def closed(self) -> bool:
        return self._handle is None

    @property
    def averages_gradients(self) -> bool:
        return bool(self._ask("averages_gradients", c.c_int()))

    @property
    def residual_norm(self) -> float:
        return float(self._ask("residual_norm", c.c_double()))

    @property
    def set_back(self) -> bool:
        return bool(self._ask("set_back", c.c_int()))

    # Steps, part by part.

    def begin(
        self, step: int, lr: float, scale: float, parameters: Sequence[int] | None, plain: bool = False
    ) -> None:
        self._last_part = None
        self._call("begin", self._step(step, lr, scale, parameters, plain=plain))

    def submit(self, tensors: Sequence[int], arrays: Sequence[int], dtype: int) -> int:
        numbers, part = (l.size_t * len(tensors))(*tensors), l.size_t()
        self._call("submit", numbers, pointers(arrays), None, len(tensors), dtype, c.byref(part))
        self._last_part = int(part.value)
        return self._last_part

    def wait(self, part: int) -> None:
        """Until the part's means stand in its arrays; the time-out is the transfers' own."""
        done = c.c_int()
        while not done.value:  # Python hears of a Ctrl-C between calls
            self._call("wait", part, _STRETCH, c.byref(done))

    def finish(self) -> l.Stats:
        """Ends the step on all ranks or on none."""
        if self._last_part is not None:
            with contextlib.suppress(Error):  # which the end of the step tells
                self.wait(self._last_part)
        stats = l.Stats()
        self._call("finish", c.byref(stats))
        return stats

    def tensor_cost(self, tensor: int) -> l.TensorCost:
        cost = l.TensorCost()
        self._call("tensor_stats", tensor, c.byref(cost))
        return cost

    def commit(self) -> None:
        self._call("commit")

    def rollback(self) -> None:
        self._call("rollback")

    def abort(self, why: str) -> None:
        self._call("abort", why.encode())

    # Steps around an update.

    def before_update(self, parameters: Any, gradients: Any, step: int, lr: float) -> l.Stats:
        stats = l.Stats()
        self._call("before_update", parameters, gradients, self._step(step, lr), c.byref(stats))
        return stats

    def after_update(self, parameters: Any, step: int, lr: float, momentum: Any = None) -> l.Stats:
        return self._update("after_update", parameters, step, lr, momentum)

    def finish_round(
        self, parameters: Any, step: int, lr: float, momentum: Any = None, plain: bool = False
    ) -> l.Stats:
        return self._update("finish_round", parameters, step, lr, momentum, plain)

    def _update(
        self, function: str, parameters: Any, step: int, lr: float, momentum: Any, plain: bool = False
    ) -> l.Stats:
        stats = l.Stats()
        told = self._step(step, lr, momentum=momentum, plain=plain)
        self._call(function, parameters, told, c.byref(stats))
        return stats

    @staticmethod
    def _step(
        step: int, lr: float, scale: float = 1, parameters: Any = None, momentum: Any = None, plain: bool = False
    ) -> Any:
        told = l.Step(step=step, lr=lr, scale=scale, plain=plain)
        if parameters is not None:
            told.parameters = pointers(parameters)
        if momentum is not None:
            told.momentum = pointers(momentum)
        return c.byref(told)

    # What is remembered.

    def save(self, parameters: Any = None) -> bytearray:
        if self._handle is None:
            raise UsageError("this state was closed")
        return l.library().fill("method_save", self._handle, parameters)

    def load(self, state: bytes, parameters: Any = None) -> None:
        self._call("method_load", c.cast(c.c_char_p(state), l.pointer), len(state), 0, parameters)

    def get(self, name: str, address: int, count: int) -> None:
        self._call("state_get", a_text(name, "name"), address, count)

    def set_transport(self, transport: Transport) -> None:
        try:
            self._call("method_set_transport", transport.handle)
        except BaseException:
            transport.close()
            raise
        self.transport.close()
        self.transport = transport

    def close(self) -> None:
        """Leaves: a step under way ends on all ranks."""
        handle, self._handle = self._handle, None
        if handle is not None:
            l.library().method_free(handle)
        self.transport.close()


class _Alone(Transport):
    def __init__(self) -> None:
        super().__init__(0, 1)
        self.handle = l.library().handle("sockets_transport", 0, 1, (c.c_int * 1)(-1))


def require_parts_alone(recipe: str) -> None:
    """For hosts that wait for each part before they have the next: tries a step of one rank, and raises what it raises."""
    bare = json.dumps({**json.loads(recipe), "rules": []})
    entry = (c.c_float * 1)(1)
    method = Method(_Alone(), bare, [("first", (1,)), ("second", (1,))], unit_bytes=1)
    try:
        method.begin(0, 0.1, 1, None)
        part = method.submit([0], [c.addressof(entry)], l.FLOAT32)
        method.wait(part)
    except UsageError as error:
        raise UsageError(f"each unit of fully_shard() must end before the next: {error}") from None
    finally:
        method.close()


def redistributed(states: Sequence[bytes], ranks: int, rank: int) -> bytes:
    """What this rank of ``ranks`` is to load, of what as many ranks as there are states have saved."""
    addresses = pointers([c.cast(c.c_char_p(state), l.pointer).value or 0 for state in states])
    sizes = (l.size_t * len(states))(*map(len, states))
    return bytes(l.library().fill("states_redistribute", addresses, sizes, len(states), ranks, rank))
