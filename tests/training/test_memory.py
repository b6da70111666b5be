"""Settings that take more memory than there is are refused before any is taken."""

import pytest
import torch

from surelabel.config.run import RunConfig
from surelabel.config.settings import with_settings
from surelabel.data.batch import Task
from surelabel.training import build, memory
from surelabel.training.fit import fit
from surelabel.training.memory import check_memory, check_settings
from surelabel.utils.errors import UserError
from surelabel.utils.memory import available_memory
from tests.helpers.tables import table_run

ROWS = Task((8,), ("a", "b"), "float32", (0.0,) * 8, (1.0,) * 8)
PICTURES = Task((3, 32, 32), ("a", "b"), "uint8", (0.0,) * 3, (1.0,) * 3)
TABLE = {
    "data": "x.csv",
    "method": "bam-uda",
    "network.name": "mlp-1-8",
    "views.weak": "noise",
    "views.strong": "corrupt",
}
PAWS = {"data": "x", "method": "paws", "network.name": "wrn-10-1", "paws.classes": "2"}


@pytest.mark.parametrize(
    ("base", "task", "changes", "named"),
    [
        (TABLE, ROWS, {"head.samples": "2000000000"}, "head.samples"),
        (TABLE, ROWS, {"batch.labelled": "2000000000"}, "batch.labelled"),
        (TABLE, ROWS, {"batch.ratio": "2000000000"}, "batch.ratio"),
        (TABLE, ROWS, {"selection.window": "20000000000"}, "selection.window"),
        (TABLE, ROWS, {"network.name": "mlp-99-99999"}, "network.name"),
        (TABLE | {"method": "uda"}, ROWS, {"calibrator": "mc-dropout", "calibration.samples": "9000000000"}, "samples"),
        (PAWS, PICTURES, {"network.name": "wrn-10-9999"}, "network.name"),
        (PAWS, PICTURES, {"paws.per_class": "2000000000"}, "paws.per_class"),
        (PAWS, PICTURES, {"paws.unlabelled": "2000000000"}, "paws.unlabelled"),
        (PAWS, PICTURES, {"paws.width": "2000000000"}, "too large"),
        (PAWS, PICTURES, {"image_size": "2000000"}, "image_size"),
    ],
)
def test_what_cannot_fit_is_refused_by_name(base, task, changes, named, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**34)
    config = build.resolve(with_settings(RunConfig(), base))
    check_settings(config)
    check_memory(config, task)
    config = build.resolve(with_settings(RunConfig(), base | changes))
    with pytest.raises(UserError, match=named):
        check_settings(config)
        check_memory(config, task)


def test_settings_that_are_not_read_take_no_memory(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**34)
    config = build.resolve(with_settings(RunConfig(), TABLE | {"method": "supervised", "head.samples": "2000000000"}))
    check_memory(config, ROWS)


def test_counted_parameters_are_those_of_the_network(digits_data, tiny):
    from surelabel.training import build_data

    config, task = build.resolve(tiny), build_data.task_of(digits_data)
    made = build.build_network(config, task)
    assert memory._parameters(config, task) == sum(tensor.numel() for tensor in made.parameters())
    assert {tensor.device for tensor in made.parameters()} == {torch.device("cpu")}


def test_refused_run_leaves_no_folder(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,label\n" + "".join(f"{n},{n * n},{n % 2}\n" for n in range(40)))
    run = table_run(tmp_path / "x.csv", tmp_path / "run", method="bam-uda")
    with pytest.raises(UserError, match=r"head\.samples"):
        fit(with_settings(run, {"head.samples": "2000000000000"}))
    assert not (tmp_path / "run").exists()


def test_memory_of_this_machine_is_known():
    with open("/proc/meminfo") as file:  # noqa: PTH123
        whole = int(file.readline().split()[1]) * 1024
    assert 2**26 < available_memory() <= whole + 2**20


def test_limit_of_a_group_of_processes_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("surelabel.utils.memory.CGROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    before = available_memory()
    (tmp_path / "memory.max").write_text("1000000\n")
    assert available_memory() == 1_000_000 < before
