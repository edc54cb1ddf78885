"""What steps cost: the last one and all together."""

from __future__ import annotations

from typing import Any

from . import _library as l

_COUNTED = [name for name, _ in l.Stats._fields_ if name not in ("struct_size", "flags", "finite")]


class Costs:
    def __init__(self) -> None:
        self._last: dict[str, Any] = {name: 0 for name in _COUNTED}
        self._total: dict[str, Any] = dict(self._last)
        self._steps = 0

    def add(self, *stats: l.Stats) -> None:
        """One step's, which may have come in pieces."""
        self._last = {name: sum(getattr(one, name) for one in stats) for name in _COUNTED}
        self._last["finite"] = all(one.finite for one in stats)
        for name in _COUNTED:
            self._total[name] += self._last[name]
        self._steps += 1

    def report(self) -> dict[str, Any]:
        return {"steps": self._steps, "last": _with_ratio(self._last), "total": _with_ratio(self._total)}


def tensor_report(cost: l.TensorCost) -> dict[str, Any]:
    payload, dense = cost.payload_bytes, cost.dense_bytes
    ratio = dense / payload if payload else None
    return {"payload_bytes": payload, "dense_bytes": dense, "ratio": ratio, "rests": bool(cost.rests)}


def _with_ratio(counts: dict[str, Any]) -> dict[str, Any]:
    wire = counts["wire_bytes"]
    return {**counts, "ratio": counts["dense_bytes"] / wire if wire else None}
