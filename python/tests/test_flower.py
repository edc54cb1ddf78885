"""The mod for Flower, without a network: messages through the mod, and their answers through the strategy."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest

pytest.importorskip("flwr")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "python"))

from flower_mod import CompressUpdates, opened  # noqa: E402
from flwr.common import Code, FitIns, FitRes, Message, Metadata, Status, ndarrays_to_parameters  # noqa: E402
from flwr.common import parameters_to_ndarrays  # noqa: E402
from flwr.common.recordset_compat import fitins_to_recordset, fitres_to_recordset, recordset_to_fitins  # noqa: E402
from flwr.common.recordset_compat import recordset_to_fitres  # noqa: E402

SHAPES = [(40, 30), (30,)]


class Mean:
    def configure_fit(self, server_round, parameters, client_manager):
        return parameters

    def aggregate_fit(self, server_round, results, failures):
        all_of = [parameters_to_ndarrays(result.parameters) for _, result in results]
        return [np.mean(arrays, axis=0) for arrays in zip(*all_of)]


def client(message, context):
    """Moves every parameter by one."""
    given = recordset_to_fitins(message.content, keep_input=True)
    arrays = [a + 1 for a in parameters_to_ndarrays(given.parameters)]
    result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), 8, {})
    return Message(message.metadata, fitres_to_recordset(result, keep_input=False))


def test_updates_travel_as_frames_and_nothing_is_lost():
    server, mods = opened(Mean)(), [CompressUpdates("topk:0.1") for _ in range(2)]
    model = [np.zeros(shape, np.float32) for shape in SHAPES]
    for number in range(3):
        parameters = ndarrays_to_parameters(model)
        server.configure_fit(number, parameters, None)
        results = []
        for mod in mods:
            content = fitins_to_recordset(FitIns(parameters, {}), keep_input=True)
            metadata = Metadata(0, "1", 0, 1, "", "0", 60.0, "train")
            reply = mod(Message(metadata, content), None, client)
            result = recordset_to_fitres(reply.content, keep_input=False)
            assert len(result.parameters.tensors[0]) < 4 * 1230 / 4  # of a tenth, with their places
            results.append((None, result))
        model = server.aggregate_fit(number, results, [])
    moved = sum(float(a.sum()) for a in model)
    assert moved + sum(float(mod._owed.sum()) for mod in mods) / 2 == pytest.approx(3 * 1230, rel=1e-5)
