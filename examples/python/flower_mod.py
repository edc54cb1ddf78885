"""Compressed updates for federated learning with Flower: a mod for clients, and a strategy that opens what they send.

    app = ClientApp(client_fn, mods=[CompressUpdates("sbc:0.01")])
    strategy = opened(FedAvg)(min_fit_clients=2)

A client sends the frame of what its training has changed; what the operator leaves out is owed to the next round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.common import FitRes, Message, Parameters, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.constant import MessageType
from flwr.common.recordset_compat import fitres_to_recordset, recordset_to_fitins, recordset_to_fitres

import laconic_comm as lc

TYPE = "laconic"  # of parameters that are one frame


def flat(parameters: Parameters) -> np.ndarray:
    return np.concatenate([array.ravel() for array in parameters_to_ndarrays(parameters)]).astype(np.float32)


class CompressUpdates:
    """One per client: in a simulation, where clients come and go, keep one for each by its partition."""

    def __init__(self, op: str, seed: int = 0) -> None:
        self._op, self._seed, self._round = op, seed, 0
        self._owed: Any = 0.0

    def __call__(self, message: Message, context: Any, call_next: Any) -> Message:
        if message.metadata.message_type != MessageType.TRAIN:
            return call_next(message, context)
        before = flat(recordset_to_fitins(message.content, keep_input=True).parameters)
        reply = call_next(message, context)
        if not reply.has_content():
            return reply
        result = recordset_to_fitres(reply.content, keep_input=False)
        change = flat(result.parameters) - before + self._owed
        frame = lc.compress(change, self._op, seed=self._seed, step=self._round)
        self._owed, self._round = change - lc.decompress(frame), self._round + 1
        result.parameters = Parameters([frame], TYPE)
        reply.content = fitres_to_recordset(result, keep_input=False)
        return reply


def opened(strategy: type) -> type:
    """The strategy with parameters of its clients as it knows them."""

    class Opened(strategy):  # type: ignore[misc]
        def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> Any:
            self._sent = parameters_to_ndarrays(parameters)
            return super().configure_fit(server_round, parameters, client_manager)

        def aggregate_fit(self, server_round: int, results: list[tuple[Any, FitRes]], failures: Any) -> Any:
            for _, result in results:
                if result.parameters.tensor_type == TYPE:
                    result.parameters = self._open(result.parameters.tensors[0])
            return super().aggregate_fit(server_round, results, failures)

        def _open(self, frame: bytes) -> Parameters:
            cuts = np.cumsum([array.size for array in self._sent])
            parts = np.split(lc.decompress(frame), cuts[:-1])
            pairs = zip(self._sent, parts)
            return ndarrays_to_parameters([(a + p.reshape(a.shape)).astype(a.dtype) for a, p in pairs])

    return Opened
