"""The planner."""

from __future__ import annotations

import json

import numpy as np
import pytest

import laconic_comm as lc


def small(folder):
    file = folder / "model.json"
    file.write_text(json.dumps([{"name": "a.weight", "shape": [200, 100]}, {"name": "a.bias", "shape": [200]}]))
    return file


def test_recipes_come_fastest_first(tmp_path):
    report = lc.plan(small(tmp_path), workers=4, link="10mbit,1ms", compute=0.01, recipes=["dense", "natural"], repeats=1)
    names = [entry["recipe"] for entry in report["recipes"]]
    assert sorted(names) == ["bf16", "dense", "natural"]
    steps = [entry["step_seconds"] for entry in report["recipes"]]
    assert steps == sorted(steps) and all(step >= 0.01 for step in steps)
    dense = next(entry for entry in report["recipes"] if entry["recipe"] == "dense")
    assert dense["over_dense"] == 1 and dense["error"] == 0


def test_workers_may_share_cores(tmp_path):
    report = lc.plan(small(tmp_path), workers=4, compute=0.01, recipes=["grid"], repeats=1, cores=2)
    assert report["cores"] == 2
    for entry in report["recipes"]:
        assert entry["exposed_seconds"] >= 0.999 * 2 * entry["kernel_seconds"]


def test_numbers_may_be_numpys(tmp_path):
    numbers = {"workers": np.int64(4), "compute": np.float32(0.5)}
    assert lc.plan(small(tmp_path), recipes="dense", repeats=1, **numbers)["compute_seconds"] == 0.5


def test_an_adaptive_recipe_runs(tmp_path):
    file = tmp_path / "gradients.npz"
    random = np.random.default_rng(0)
    tensors = {"a.weight": 10 * random.standard_normal((100, 100)), "b.weight": random.standard_normal((100, 100))}
    np.savez(file, **{name: x.astype(np.float32) for name, x in tensors.items()})
    found = lc.plan(file, workers=2, compute=0.01, recipes=["dense"], adaptive="topk:0.1", repeats=1)["adaptive"]
    assert found["chosen"]["error"] <= found["layer_wise"]["error"]
    assert found["chosen"]["bytes"] <= found["layer_wise"]["bytes"]
    assert found["chosen"]["recipe"]["name"] == "planned"


def test_a_rank_for_each_tensor(tmp_path):
    file = tmp_path / "gradients.npz"
    random = np.random.default_rng(0)
    thin = random.standard_normal((60, 3)) @ random.standard_normal((3, 60))
    np.savez(file, thin=thin.astype(np.float32), wide=random.standard_normal((60, 60)).astype(np.float32))
    report = lc.plan(file, workers=2, compute=0.01, recipes=["dense"], adaptive="powersgd:4", bytes=4 * 120 * 10, repeats=1)
    found = report["adaptive"]
    assert "entire_model" not in found
    assert found["chosen"]["error"] < found["layer_wise"]["error"] and found["chosen"]["bytes"] <= 4800
    recipe = found["chosen"]["recipe"]
    assert (recipe["exchange"], recipe["rules"]) == ("powersgd:3", ["name=wide,rank=7"])
    planned = next(entry for entry in report["recipes"] if entry["recipe"] == "planned")
    assert "obstacle" not in planned


@pytest.mark.parametrize(
    "request_, words",
    [
        ({"workers": 1}, "1 workers; allowed: 2 to 10000"),
        ({"link": "fast"}, "link 'fast'"),
        ({"model": "resnet51"}, "no model 'resnet51'"),
        ({"recipes": ["nothing"]}, "no recipe 'nothing'"),
        ({"colour": "red"}, "no 'colour'"),
        ({"adaptive": "sign"}, "no density, levels or bits"),
        ({"adaptive": "powersgd:0"}, "rank = 1 to 64, whole"),
        ({"model": 5}, "model is 5"),
        ({"model": "a\0b"}, "without a zero byte"),
        ({"gradients": 5}, "gradients is 5"),
        ({"gradients": "nowhere.npz"}, "nowhere.npz"),
        ({"recipes": 5}, "recipes is 5"),
        ({"recipes": "nothing"}, "no recipe 'nothing'"),
        ({"compute": float("nan")}, "compute_seconds is nan"),
        ({"batch": {1}}, "batch is {1}"),
    ],
)
def test_mistakes_are_sentences(request_, words):
    with pytest.raises(lc.UsageError, match=words):
        lc.plan(**request_)
