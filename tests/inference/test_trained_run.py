import json
from dataclasses import replace

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from surelabel.inference.trained_run import load
from surelabel.training import build
from surelabel.training.build import start_from
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError
from tests.helpers.runs import fit_folder


@pytest.mark.parametrize("method", ["fixmatch", "bam-uda+ema", "paws", "bam-paws+swa"])
def test_metrics_of_a_loaded_run_equal_its_result(tiny, method):
    folder = fit_folder(replace(tiny, method=method))
    stored = json.loads((folder.path / "result.json").read_text())
    again = load(folder.path).metrics
    assert again["averaged"] == pytest.approx(stored["averaged"], abs=1e-6)
    assert again["raw"] == pytest.approx(stored["raw"], abs=1e-6)


def test_load_names_damaged_files(tiny):
    folder = fit_folder(tiny)
    weights = folder.path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"weights\.safetensors is damaged"):
        load(folder.path).evaluate()
    for name, read in (("task.json", RunFolder.task), ("split.json", RunFolder.labelled)):
        (folder.path / name).write_text("{}")
        with pytest.raises(UserError, match=rf"{name} is damaged"):
            read(folder)
    with pytest.raises(UserError, match="not a run folder"):
        load(folder.path.parent).evaluate()


def test_fit_starts_from_the_backbone_of_another_run(tiny, tmp_path):
    first = fit_folder(replace(tiny, method="paws"))
    later = replace(tiny, method="supervised", init=str(first.path), out=str(tmp_path / "later"), steps=1)
    network = build.build_network(later, first.task())
    start_from(network, first.path)
    stored = {name: tensor for name, tensor in first.weights().items() if name.startswith("backbone.")}
    assert stored
    assert all(torch.equal(tensor, network.state_dict()[name]) for name, tensor in stored.items())
    assert fit_folder(later).path.exists()
    with pytest.raises(UserError, match="its network differs"):
        fit_folder(replace(later, network=replace(later.network, name="wrn-16-1"), out=str(tmp_path / "other")))
    assert not (tmp_path / "other").exists()


def test_network_uses_no_more_threads_than_cores(tiny, monkeypatch):
    folder = fit_folder(replace(tiny, threads=2, steps=1))
    monkeypatch.setattr("surelabel.utils.cpu.available_cores", lambda: 1)
    assert not load(folder.path).network.training
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("task.json", {"shape": [1, 10**6, 10**6]}, "do not fit"),
        ("task.json", {"shape": []}, r"task\.json is damaged"),
        ("task.json", {"classes": "ab"}, r"task\.json is damaged: classes"),
        ("task.json", {"scale": [float("nan")]}, r"task\.json is damaged: scale"),
        ("task.json", {"dtype": "complex64"}, r"task\.json is damaged"),
        ("config.yaml", {"network": {"name": "mlp-9-99999"}}, "do not fit"),
        ("config.yaml", {"network": {"name": "wrn-99998-2"}}, "no network"),
        ("split.json", {"labelled": [10**6]}, "samples that have no label"),
        ("split.json", {"labelled": [-1]}, "samples that have no label"),
        ("split.json", {"labelled": [1.5]}, r"split\.json is damaged"),
    ],
)
def test_load_takes_no_memory_for_what_a_file_claims(tiny, file, change, words):
    folder = fit_folder(replace(tiny, steps=1, network=replace(tiny.network, name="mlp-1-4"))).path
    stored = yaml.safe_load((folder / file).read_text())
    for key, value in change.items():
        stored[key] = stored[key] | value if isinstance(value, dict) else value
    (folder / file).write_text(json.dumps(stored))
    run = load(folder)
    with pytest.raises(UserError, match=words):
        _ = run.network, run.data


def test_load_refuses_weights_of_another_network(tiny):
    folder = fit_folder(replace(tiny, steps=1)).path
    tensors = load_file(folder / "weights.safetensors")
    for wrong in ({"more": torch.zeros(1)}, {"scale": torch.zeros(2)}, {"scale": tensors["scale"].long()}):
        save_file(tensors | wrong, folder / "weights.safetensors")
        with pytest.raises(UserError, match=f"do not fit.*{next(iter(wrong))}"):
            _ = load(folder).network
    header = json.dumps({"__metadata__": "x" * 10**5}).encode()
    (folder / "weights.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(UserError, match=r"^.{1,600}$"):
        _ = load(folder).network
    with (folder / "weights.safetensors").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UserError, match=r"weights\.safetensors"):
        _ = load(folder).network
