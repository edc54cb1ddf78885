"""Real processes for tests: each run forks its ranks from a server that has torch loaded."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import wait
from typing import Any, Callable

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["MASTER_ADDR"] = "127.0.0.1"
os.environ["GLOO_SOCKET_IFNAME"] = "lo"

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.distributed", "laconic_comm.hook", "laconic_comm.local", "ranks"])

DEADLINE = 200.0  # of a run; a machine may be busy


def _child(function: Callable[..., Any], rank: int, size: int, store: str, pipe: Any, arguments: Any) -> None:
    try:
        from ranks import meet

        meet(rank, size, store)
        pipe.send((True, function(rank, size, *arguments)))
    except BaseException as error:
        pipe.send((False, "".join(traceback.format_exception(type(error), error, error.__traceback__))))
    pipe.close()


def _run(function: Callable[..., Any], size: int, *arguments: Any, dead: tuple[int, ...] = ()) -> list[Any]:
    """What function(rank, size, *arguments) returns on each rank; None for those expected to die."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = [_context.Pipe(duplex=False) for _ in range(size)]
        children = [
            _context.Process(target=_child, args=(function, r, size, folder + "/store", pairs[r][1], arguments))
            for r in range(size)
        ]
        try:
            for child in children:
                child.start()
            for _, end in pairs:
                end.close()
            return _collect([end for end, _ in pairs], dead)
        finally:
            for child in children:
                if child.pid is not None:
                    child.join(1 if dead else 10)  # who has lost others may hang in gloo's own end
                    child.kill()
                    child.join()


def _collect(ends: list[Any], dead: tuple[int, ...]) -> list[Any]:
    due = time.monotonic() + DEADLINE
    results: dict[int, Any] = {}
    while len(results) < len(ends):
        waiting = [end for rank, end in enumerate(ends) if rank not in results]
        ready = wait(waiting, max(due - time.monotonic(), 0))
        if not ready:
            missing = [rank for rank in range(len(ends)) if rank not in results]
            pytest.fail(f"no result of ranks {missing} within {DEADLINE} s")
        for end in ready:
            rank = ends.index(end)
            try:
                ok, value = end.recv()
            except EOFError:
                ok, value = rank in dead, None
            if not ok:
                pytest.fail(f"rank {rank}:\n{value or 'ended without a word'}")
            results[rank] = value
    return [results[rank] for rank in range(len(ends))]


@pytest.fixture
def run() -> Callable[..., list[Any]]:
    return _run
