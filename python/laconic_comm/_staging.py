"""Gradients on other devices: through pinned host memory, on a stream beside the device's own.

A bucket has one host buffer. It is copied down, averaged on the host and copied up again on the same side stream, so the
device itself keeps the copies of one step from meeting those of the next; the host waits for an event before it reads.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch


class DeviceStreams:
    """The side stream of one device, by the module of torch that serves it (torch.cuda, torch.xpu, ...)."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._module = device, _module_of(device)
        self._side = self._module.Stream(device=device)

    def host(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(count, dtype=dtype, pin_memory=True)

    def down(self, host: torch.Tensor, tensor: torch.Tensor) -> Any:
        """Copies after what the current stream has under way; the event it returns says when that is done."""
        self._side.wait_stream(self._module.current_stream(self._device))
        with self._module.stream(self._side):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(self._side)
        return self._side.record_event()

    def up(self, tensor: torch.Tensor, host: torch.Tensor) -> None:
        with self._module.stream(self._side):
            tensor.copy_(host, non_blocking=True)

    def fill(self, tensor: torch.Tensor, value: float) -> None:
        with self._module.stream(self._side):
            tensor.fill_(value)

    def current(self) -> Any:
        """Within it the side stream is the current one: futures resolved there make their users wait for it."""
        return self._module.stream(self._side)

    def join(self) -> None:
        """What the current stream does next comes after the copies."""
        self._module.current_stream(self._device).wait_stream(self._side)

    def future(self) -> torch.futures.Future[torch.Tensor]:
        return torch.futures.Future(devices=[self._device])


class HostStreams:
    """The same on a CPU, where copies are done when they are asked for. For tests of what is around them."""

    def __init__(self, device: torch.device) -> None:
        del device

    def host(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.full((count,), float("nan"), dtype=dtype)

    def down(self, host: torch.Tensor, tensor: torch.Tensor) -> Any:
        host.copy_(tensor)
        return _Done()

    def up(self, tensor: torch.Tensor, host: torch.Tensor) -> None:
        tensor.copy_(host)

    def fill(self, tensor: torch.Tensor, value: float) -> None:
        tensor.fill_(value)

    def current(self) -> Any:
        return contextlib.nullcontext()

    def join(self) -> None:
        pass

    def future(self) -> torch.futures.Future[torch.Tensor]:
        return torch.futures.Future()


class _Done:
    def synchronize(self) -> None:
        pass


class Staging:
    """Host buffers and side streams, by device and place of the part in a step."""

    def __init__(self, streams: Any = DeviceStreams) -> None:
        self._make = streams
        self._streams: dict[torch.device, Any] = {}
        self._hosts: dict[tuple[int, torch.device, torch.dtype], torch.Tensor] = {}

    def streams(self, device: torch.device) -> Any:
        if device not in self._streams:
            self._streams[device] = self._make(device)
        return self._streams[device]

    def down(self, part: int, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The part's host buffer and an event; the buffer is as long as the tensor, which is flat."""
        streams = self.streams(tensor.device)
        key = (part, tensor.device, tensor.dtype)
        host = self._hosts.get(key)
        if host is None or host.numel() < tensor.numel():  # DDP rebuilds its buckets once
            host = self._hosts[key] = streams.host(tensor.numel(), tensor.dtype)
        host = host[: tensor.numel()]
        return host, streams.down(host, tensor)


def staging_for(device: torch.device, forced: Any) -> Staging | None:
    """None where gradients lie in the host's memory already. ``forced``: True, or a class of streams, for tests."""
    if forced:
        return Staging(HostStreams if forced is True else forced)
    return None if device.type == "cpu" else Staging()


def _module_of(device: torch.device) -> Any:
    if hasattr(torch, "get_device_module"):
        return torch.get_device_module(device)
    return getattr(torch, device.type)
