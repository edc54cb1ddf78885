"""What each recipe would give, before anything is trained."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from typing import Any

from . import _library as l
from ._arguments import a_text, texts
from .errors import UsageError


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
        "model": _a_file(model, "model"), "workers": workers, "link": link, "compute_seconds": compute, "adaptive": adaptive,
        "gradients": [_a_file(file, "gradients") for file in _several(gradients, "gradients")],
        "recipes": texts(recipes, "recipes"), **more,
    }  # fmt: skip
    told = [f"{json.dumps(key)}: {_as_json(value, key)}" for key, value in request.items() if value is not None]
    report = ctypes.c_char_p()
    l.library().plan(a_text("{" + ", ".join(told) + "}", "plan"), ctypes.byref(report))
    return dict(json.loads(report.value or b"{}"))


def _several(files: Any, what: str) -> list[Any]:
    return [files] if isinstance(files, os.PathLike) else texts(files, what)


def _a_file(value: Any, what: str) -> str:
    try:
        return a_text(os.fspath(value), what).decode(errors="surrogateescape")
    except TypeError:
        raise UsageError(f"{what} is {value!r}; allowed: a name or a file") from None


def _as_json(value: Any, what: str) -> str:
    plain = value.item() if hasattr(value, "item") else value  # of NumPy
    try:
        return json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise UsageError(f"{what} is {value!r}; allowed: what JSON has") from None
