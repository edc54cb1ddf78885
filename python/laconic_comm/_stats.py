"""What steps cost: the last one and all together."""

from __future__ import annotations

import logging
from typing import Any

from . import _library as l
from ._arguments import a_writer

log = logging.getLogger("laconic")

_SHOWN = ("wire_bytes", "traffic_bytes", "ratio", "exposed_seconds", "compress_seconds", "decompress_seconds")
_COUNTED = [name for name, _ in l.Stats._fields_ if name.endswith(("_bytes", "_seconds")) or name == "rounds"]
_LANES = ("recipe", "half", "dense", "light", "tight")  # as laconic_stats numbers them


class Costs:
    """``writer``: TensorBoard's SummaryWriter, or anything else with its add_scalar(name, value, step)."""

    def __init__(self, writer: Any = None) -> None:
        self._writer = a_writer(writer)
        self._last: dict[str, Any] = {name: 0 for name in _COUNTED}
        self._total: dict[str, Any] = dict(self._last)
        self._steps = 0
        self._lanes = dict.fromkeys(_LANES, 0)

    def add(self, *stats: l.Stats) -> None:
        """One step's, which may have come in pieces."""
        self._last = {name: sum(getattr(one, name) for one in stats) for name in _COUNTED}
        self._last["finite"] = all(one.finite for one in stats)
        self._last["lane"] = _LANES[stats[-1].lane]
        self._lanes[self._last["lane"]] += 1
        for name in _COUNTED:
            self._total[name] += self._last[name]
        self._steps += 1
        if self._writer is not None:
            self._write(_with_ratio(self._last))

    # What goes wrong in a writer is not the training's business.
    def _write(self, shown: dict[str, Any]) -> None:
        try:
            for name in _SHOWN:
                if shown[name] is not None:
                    self._writer.add_scalar(f"laconic/{name}", shown[name], self._steps)
        except Exception as error:
            self._writer = None
            log.warning("the writer failed and is not used any more: %s: %s", type(error).__name__, error)

    def report(self) -> dict[str, Any]:
        return {"steps": self._steps, "last": _with_ratio(self._last), "total": {**_with_ratio(self._total), "lanes": dict(self._lanes)}}


def tensor_report(cost: l.TensorCost) -> dict[str, Any]:
    payload, dense = cost.payload_bytes, cost.dense_bytes
    ratio = dense / payload if payload else None
    return {"payload_bytes": payload, "dense_bytes": dense, "ratio": ratio, "rests": bool(cost.rests)}


def _with_ratio(counts: dict[str, Any]) -> dict[str, Any]:
    wire = counts["wire_bytes"]
    return {**counts, "ratio": counts["dense_bytes"] / wire if wire else None}
