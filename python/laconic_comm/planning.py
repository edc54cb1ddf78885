"""What each recipe would give, before anything is trained."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from typing import Any

from . import _library as l


def plan(
    model: str | os.PathLike[str] = "resnet50",
    *,
    workers: int = 16,
    link: str = "100mbit,1ms",
    gradients: Sequence[str | os.PathLike[str]] = (),
    compute: float | None = None,
    recipes: Sequence[str] = (),
    adaptive: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Bytes, step times and errors of recipes as a dict, as `laconic plan --json` prints them, fastest first in "recipes".

    model: a name, a .json file with tensors or a .npz file of gradients. compute: seconds a worker computes in a step. adaptive:
    an operator whose density, levels or bits are chosen by tensor, or powersgd for ranks, within `bytes` or `error`; the recipe is in
    ["adaptive"]["chosen"]["recipe"], for `lc.attach(recipe=...)`. More: batch, bucket_bytes, headers, repeats, and
    cores, those of one machine that all workers share: compute is then what a step computes while all of them do. stack,
    as "6us,0.4ns": what a message and a byte take of such cores, measured if not given.
    """
    request = {
        "model": os.fspath(model), "workers": workers, "link": link, "compute_seconds": compute, "adaptive": adaptive,
        "gradients": [os.fspath(file) for file in gradients], "recipes": list(recipes), **more,
    }  # fmt: skip
    text = json.dumps({key: value for key, value in request.items() if value is not None})
    report = ctypes.c_char_p()
    l.library().plan(text.encode(), ctypes.byref(report))
    return dict(json.loads(report.value or b"{}"))
