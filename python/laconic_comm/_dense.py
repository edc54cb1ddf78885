"""Dense gradients: the group's own all-reduce, bit for bit what DDP does without a hook."""

from __future__ import annotations

import datetime
import time
from typing import Any

import torch

from . import _library as l
from ._method import Method
from .errors import Error, TransportError

_LOOK = datetime.timedelta(seconds=0.25)  # how often the ranks' own connections are asked whether somebody has left
_GRACE = 0.5  # a process that ends closes the group's connections, and then those


class DenseParts:
    """The buckets of one pass, under way at the same time."""

    def __init__(self, group: Any, method: Method, timeout: float) -> None:
        self._group, self._method, self._timeout = group, method, timeout
        self._works: list[Any] = []
        self._bytes = 0

    def start(self, buffer: torch.Tensor, first: bool) -> Any:
        if first:
            self._works, self._bytes = [], 0
        buffer.mul_(1.0 / self._method.transport.size)  # as stock does, before the sum
        try:
            work = self._group.allreduce([buffer])
        except RuntimeError as error:
            raise self._told(self._somebody_left(_GRACE), False, error) from error
        self._works.append(work)
        self._bytes += buffer.numel() * buffer.element_size()
        return work

    def stats(self) -> l.Stats:
        """Of the gradient alone: how the group moves it is not known."""
        size = self._bytes
        return l.Stats(payload_bytes=size, wire_bytes=size, dense_bytes=size, rounds=len(self._works), finite=1)

    def finish(self) -> l.Stats:
        """Waits for all of them. Raises TransportError, which names who has left; a group knows addresses at best."""
        due = time.monotonic() + self._timeout
        for work in self._works:
            self._wait(work, due)
        return self.stats()

    def _wait(self, work: Any, due: float) -> None:
        while True:
            try:
                work.wait(_LOOK)
                return
            except RuntimeError as error:
                failed, late = work.is_completed(), time.monotonic() >= due
                left = self._somebody_left(_GRACE if failed else 0)
                if left or failed or late:
                    raise self._told(left, late, error) from error

    def _somebody_left(self, seconds: float) -> bool:
        return bool(self._method.transport.left(seconds))

    def _told(self, left: bool, late: bool, error: RuntimeError) -> Error:
        if left:
            return self._who_left()
        why = str(error).strip().splitlines()[0]
        if late:
            why = f"no answer within {self._timeout:g} s"
        return TransportError(f"rank {self._method.transport.rank}: the group's all-reduce of gradients fails: {why}")

    # Those who notice it first leave, too, and soon there are several. A step of the library, which has no other here,
    # ends at once by the first of them: whoever leaves has told whom it blames.
    def _who_left(self) -> Error:
        try:
            self._method.begin(0, 1.0, 1.0, None)
            self._method.finish()
        except Error as error:
            return error
        return TransportError(f"rank {self._method.transport.rank}: the group's all-reduce of gradients fails")
