"""Ends for the ranks of a process group: over connections of their own, or over the group itself."""

from __future__ import annotations

import ctypes as c
import datetime
import fcntl
import os
import secrets
import select
import socket
import struct
import time
from typing import Any

import torch
import torch.distributed as dist

from . import _library as l
from ._method import Transport
from .errors import Error, TransportError, UsageError

_TAG = 0x1AC0  # of messages through a group, away from those of its other users


class GroupTransport(Transport):
    """Messages through torch.distributed: for networks that let only the group's connections pass."""

    def __init__(self, group: Any, timeout: float) -> None:
        super().__init__(dist.get_rank(group), dist.get_world_size(group))
        self._group = _own_group(group, timeout)
        self._broken: BaseException | None = None
        # The library calls it as long as the transport lives, so it must live as long.
        self._callback = l.ExchangeCallback(self._exchange)
        callbacks = l.Callbacks(rank=self.rank, size=self.size, exchange=self._callback)
        self.handle = l.library().handle("transport_from_callbacks", c.byref(callbacks))

    # ctypes prints what leaves a callback and returns any number to the library, 0 included.
    def _exchange(
        self, _: Any, sends: Any, send_count: int, receives: Any, receive_count: int, timeout: float, what: bytes
    ) -> int:
        try:
            if self._broken is not None:  # late messages would be taken for those of another step
                raise TransportError(str(self._broken))
            self._pass(sends[:send_count], receives[:receive_count], timeout, what.decode())
            return 0
        except BaseException as error:
            self._broken = error
            l.library().set_error(str(error).encode())
            return 1

    def _pass(self, sends: Any, receives: Any, timeout: float, what: str) -> None:
        due = time.monotonic() + timeout
        works = []  # with their tensors, which must live until the work is done
        peers = [(s.to, s, True) for s in sends if s.size] + [(r.source, r, False) for r in receives if r.size]
        peer = -1
        try:
            for peer, message, sent in peers:
                tensor = _bytes_at(message.bytes, message.size)
                start = self._group.send if sent else self._group.recv
                works.append((peer, start([tensor], peer, _TAG), tensor))
            for peer, work, _ in works:
                left = max(due - time.monotonic(), 0.001)
                work.wait(datetime.timedelta(seconds=left))
        except BaseException as error:
            self.lost = peer
            late = time.monotonic() >= due
            told = f"no answer from rank {peer} within {timeout:g} s" if late else f"rank {peer} has left"
            first_line = str(error).strip().split("\n", 1)[0]
            raise TransportError(f"rank {self.rank}: {told} ({what}): {first_line}", peer) from error


def _bytes_at(address: int, size: int) -> torch.Tensor:
    return torch.frombuffer((c.c_uint8 * size).from_address(address), dtype=torch.uint8)


def _own_group(group: Any, timeout: float) -> Any:
    """A group that only this transport uses, where all ranks of the job can make one."""
    if dist.get_world_size(group) == dist.get_world_size():
        return dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=timeout))
    if dist.get_backend(group) != "gloo":
        raise UsageError(f"a part of the ranks over '{dist.get_backend(group)}'; allowed: gloo, or all ranks")
    return group


class SocketsTransport(Transport):
    """Connections of the ranks' own, which the library drives without Python."""

    def __init__(self, group: Any, timeout: float) -> None:
        super().__init__(dist.get_rank(group), dist.get_world_size(group))
        ends = connect(group, self.rank, self.size, timeout)
        descriptors = (c.c_int * self.size)(*(-1 if end is None else end.fileno() for end in ends))
        try:
            self.handle = l.library().handle("sockets_transport", self.rank, self.size, descriptors)
        except BaseException:
            for end in ends:
                if end is not None:
                    end.close()
            raise
        self._ends = {end.detach(): rank for rank, end in enumerate(ends) if end is not None}

    # Of a process that has ended, however, the system closes the connections at once.
    def left(self, seconds: float) -> list[int]:
        if self.handle is None:
            return []
        gone = select.poll()
        for descriptor in self._ends:
            gone.register(descriptor, select.POLLRDHUP)
        return sorted(self._ends[descriptor] for descriptor, _ in gone.poll(1000 * seconds))


def connect(group: Any, rank: int, size: int, timeout: float) -> list[socket.socket | None]:
    """One connected socket per rank, None for this one. All ranks of the group call it."""
    due = time.monotonic() + timeout
    ends: list[socket.socket | None] = [None] * size
    with socket.create_server((own_address(), 0), backlog=size) as server:
        everybody: list[Any] = [None] * size
        dist.all_gather_object(everybody, (server.getsockname()[:2], secrets.token_bytes(16)), group=group)
        token = everybody[0][1]
        try:
            for lower in range(rank):
                ends[lower] = _call(everybody[lower][0], token, rank, lower, due)
            while any(end is None for end in ends[rank + 1 :]):
                _answer(server, token, rank, ends, due)
        except BaseException:
            for end in ends:
                if end is not None:
                    end.close()
            raise
    return ends


def _left(due: float) -> float:
    return max(due - time.monotonic(), 0.001)


def _call(address: tuple[str, int], token: bytes, rank: int, to: int, due: float) -> socket.socket:
    try:
        end = socket.create_connection(tuple(address), timeout=_left(due))
    except OSError as error:
        raise TransportError(
            f"rank {rank} cannot reach rank {to} at {address[0]}:{address[1]} ({error}); "
            "GLOO_SOCKET_IFNAME names another interface, transport='group' needs no connections of its own", to
        ) from error  # fmt: skip
    end.sendall(token + struct.pack("<I", rank))
    return end


# Whoever connects without the group's token is a stranger and is dropped.
def _answer(
    server: socket.socket, token: bytes, rank: int, ends: list[socket.socket | None], due: float
) -> None:
    server.settimeout(_left(due))
    try:
        end, _ = server.accept()
    except socket.timeout:
        missing = [r for r in range(rank + 1, len(ends)) if ends[r] is None]
        names = ", ".join(map(str, missing))
        raise TransportError(f"rank {rank}: no connection from rank {names} in time", missing[0]) from None
    end.settimeout(min(_left(due), 5.0))
    try:
        said = b""
        while len(said) < 20:
            more = end.recv(20 - len(said))
            if not more:
                break
            said += more
    except OSError:
        said = b""
    peer = struct.unpack("<I", said[16:])[0] if len(said) == 20 else -1
    if secrets.compare_digest(said[:16], token) and rank < peer < len(ends) and ends[peer] is None:
        ends[peer] = end
    else:
        end.close()


def own_address() -> str:
    """GLOO_SOCKET_IFNAME's address, else the one from which MASTER_ADDR is reached, else loopback's."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if interface:
            ask = struct.pack("256s", interface[:15].encode())
            try:
                answer = fcntl.ioctl(probe.fileno(), 0x8915, ask)  # SIOCGIFADDR
            except OSError:
                raise UsageError(f"GLOO_SOCKET_IFNAME is '{interface}', which has no IPv4 address") from None
            return socket.inet_ntoa(answer[20:24])
        try:
            probe.connect((os.environ.get("MASTER_ADDR", "127.0.0.1"), 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


TRANSPORTS = {"sockets": SocketsTransport, "group": GroupTransport}


def make_transport(name: str, group: Any, timeout: float) -> Transport:
    """All ranks of the group call it."""
    if not isinstance(name, str) or name not in TRANSPORTS:
        raise UsageError(f"no transport '{name}'; known: {' '.join(sorted(TRANSPORTS))}")
    if not dist.is_available() or not dist.is_initialized():
        raise UsageError("no process group; call torch.distributed.init_process_group first")
    if group is not None and not isinstance(group, dist.ProcessGroup):
        raise UsageError(f"group is {group!r}; allowed: a process group that this rank is in, or None for all ranks")
    try:
        return TRANSPORTS[name](group, timeout)
    except Error:
        raise
    except RuntimeError as error:  # of torch, about its own group
        raise TransportError(f"the group's ranks could not meet: {error}") from error
