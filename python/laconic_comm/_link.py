"""Links between ranks: as people name them ("100mbit,1ms"), or as they are."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Callable

import torch

from ._method import Method, Transport
from .errors import UsageError

_RATES = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_LINK = re.compile(r"([0-9.]+)(kbit|mbit|gbit)(?:,([0-9.]+)(us|ms|s))?")


@dataclass(frozen=True)
class Link:
    """Of one rank, each way."""

    bits_per_second: float
    latency_seconds: float
    measured: bool = False

    def seconds(self, sent: float, rounds: float) -> float:
        """So many bytes and waits for others, with nothing hidden behind them."""
        return sent * 8 / self.bits_per_second + rounds * self.latency_seconds

    def __str__(self) -> str:
        rate = f"{self.bits_per_second / 1e6:.4g} Mbit/s, {self.latency_seconds * 1e3:.3g} ms"
        return rate + (" as measured" if self.measured else "")


def parse_link(text: str) -> Link:
    found = _LINK.fullmatch(text) if isinstance(text, str) else None
    try:
        rate = float(found[1]) * _RATES[found[2]] if found else 0.0
        latency = float(found[3]) * _TIMES[found[4]] if found and found[3] else 0.0
    except ValueError:
        rate = latency = 0.0
    if not (0 < rate <= 1e15 and latency <= 60):
        raise UsageError(
            f"link '{text}' is not a rate and a latency such as 100mbit,1ms; units: kbit mbit gbit, us ms s"
        )
    return Link(rate, latency)


def measure_link(transport: Transport, slowest: Callable[[float], float], timeout: float) -> Link:
    """All ranks call it: everybody sends to everybody, first almost nothing, then more until it takes a while.

    ``slowest`` is a maximum over ranks, so that all see the same figures and send as much.
    """
    small, count = 1, 1 << 12
    latency = min(slowest(_seconds(transport, small, timeout)[0]) for _ in range(8))
    while True:
        seconds, sent = _seconds(transport, count, timeout)
        seconds = slowest(seconds)
        if seconds > 0.2 + latency or count >= 1 << 23:
            break
        count *= 4 if seconds < 0.05 + latency else 2
    # Two waits: for the frames, and for the votes.
    return Link(sent * 8 / max(seconds - latency, 1e-6), latency / 2, measured=True)


def _seconds(transport: Transport, count: int, timeout: float) -> tuple[float, int]:
    values = torch.ones(count)
    recipe = '{"name": "link", "op": "identity"}'
    method = Method(transport, recipe, [("probe", (count,))], timeout=timeout, unit_bytes=1, guard="off")
    try:
        began = time.perf_counter()
        method.begin(0, 1.0, 1.0, None)
        method.submit([0], [values.data_ptr()], 0)
        stats = method.finish()
        return time.perf_counter() - began, int(stats.traffic_bytes)
    finally:
        method.close()
