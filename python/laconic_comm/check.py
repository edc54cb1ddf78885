"""``python -m laconic_comm.check``: what works on this machine, by two processes on loopback."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from typing import Any

from . import __version__, _library
from .errors import Error

TIMEOUT = 120.0  # of the two processes
STEPS = 5


def library_facts() -> dict[str, Any]:
    try:
        lib = _library.library()
    except Error as error:
        return {"ok": False, "why": str(error)}
    return {"ok": True, "version": lib.version().decode(), "file": lib.path, "cpu": lib.cpu().decode()}


def frames() -> dict[str, Any]:
    """An array through a frame and back."""
    import numpy as np

    from . import compress, decompress

    x = np.arange(1000, dtype=np.float32)
    data = compress(x, "identity")
    return {"ok": bool((decompress(data) == x).all()), "bytes": len(data)}


def transport_facts(name: str) -> dict[str, Any]:
    """Starts two ranks of _child; theirs is the last line they print."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", __spec__.name, "--transport", name, "--store", folder + "/store", "--rank"]
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        ranks = [
            subprocess.Popen([*command, str(r)], env=environment, stdout=-1, stderr=-1, text=True) for r in (0, 1)
        ]
        try:
            told = [rank.communicate(timeout=TIMEOUT) for rank in ranks]
        except subprocess.TimeoutExpired:
            return {"ok": False, "why": f"no answer within {TIMEOUT:g} s"}
        finally:
            for rank in ranks:
                rank.kill()
    for rank, (_, errors) in zip(ranks, told):
        if rank.returncode:
            return {"ok": False, "why": (errors.strip().splitlines() or ["no word"])[-1]}
    mine, other = (json.loads(out.splitlines()[-1]) for out, _ in told)
    facts = {"same_on_ranks": mine.pop("model") == other.pop("model"), **mine}
    return {"ok": facts["same_on_ranks"] and facts["dense_equals_stock"] and facts["identity_error"] < 1e-6, **facts}


def _child(transport: str, store: str, rank: int) -> dict[str, Any]:
    import zlib

    import torch
    import torch.distributed as dist

    from . import attach

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)

    def trained(**options: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(512, 512) for _ in range(8)]
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=1)
        state = attach(model, transport=transport, **options) if options else None
        for step in range(STEPS):
            torch.manual_seed(10 * step + rank)
            model.zero_grad()
            (model(torch.randn(64, 512)) ** 2).mean().backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
        stats = state.stats()["total"] if state else {}
        return torch.cat([p.detach().flatten() for p in model.parameters()]), stats

    stock, _ = trained()
    dense, _ = trained(recipe="dense")
    identity, _ = trained(op="identity")
    compressed, stats = trained(op="topk:0.01+natural", memory="feedback")
    worked = stats["compress_seconds"] + stats["decompress_seconds"] + stats["exchange_seconds"]
    return {
        "dense_equals_stock": bool((dense == stock).all()),
        "identity_error": float((identity - stock).norm() / stock.norm()),
        "model": zlib.crc32(compressed.numpy().tobytes()),
        "ratio": round(stats["ratio"], 1),
        "work_ms_per_step": round(1e3 * worked / STEPS, 2),
        "exposed_ms_per_step": round(1e3 * stats["exposed_seconds"] / STEPS, 2),
        "overlap": stats["exposed_seconds"] < worked,
    }


def facts() -> dict[str, Any]:
    told: dict[str, Any] = {
        "package": {"ok": True, "version": __version__, "python": platform.python_version()},
        "library": library_facts(),
    }
    if not told["library"]["ok"]:
        return told
    told["numpy"] = frames()
    if importlib.util.find_spec("torch") is None:
        told["torch"] = {"ok": False, "why": "not installed"}
        return told
    import torch

    from ._transports import TRANSPORTS

    told["torch"] = {"ok": torch.distributed.is_available(), "version": torch.__version__}
    for name in TRANSPORTS:
        told[f"transport {name}"] = transport_facts(name)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description="Says what works on this machine.")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    for hidden in ("--transport", "--store", "--rank"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        print(json.dumps(_child(options.transport, options.store, int(options.rank))))
        return 0
    told = facts()
    if options.json:
        print(json.dumps(told, indent=2))
    else:
        for name, one in told.items():
            rest = ", ".join(f"{key} {value}" for key, value in one.items() if key != "ok")
            print(f"{name:18} {'ok' if one['ok'] else 'NO':3} {rest}")
    return 0 if all(one["ok"] for one in told.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
