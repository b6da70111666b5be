"""Whatever somebody has done to the files of a run folder, every command ends: with success, or with one message.

`make fuzz` tries 2,000 changes, the tests a few.
"""

import os
import resource
import shutil
import signal
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surelabel.cli.main import main
from surelabel.inference.trained_run import load
from surelabel.training.display import Display
from surelabel.utils.errors import UserError
from tests.helpers.mutations import change, copied

CASES = int(os.environ.get("SURELABEL_FUZZ", "40"))
MEMORY = 2**32  # bytes that a command may take beyond what the process has
STEPS = 16  # after so many a run that was resumed is stopped: another number of them is no damage

RUNS = {
    "sure": ["t.csv", "--label-column", "kind", "--network.name", "members-20-4"],
    "bam": [
        "d.npz", "--method", "bam-uda+ema", "--encoder", "none", "--labels", "10", "--network.name", "mlp-1-4",
        "--crossfit", "2", "--evaluation.every", "4", "--head.samples", "3", "--batch.labelled", "4",
        "--batch.ratio", "1", "--views.weak", "none", "--views.strong", "none",
    ],
    "paws": [
        "d.npz", "--method", "bam-paws+swa", "--encoder", "none", "--labels", "10", "--network.name", "wrn-10-1",
        "--paws.unlabelled", "4", "--paws.width", "8", "--paws.per_class", "2", "--paws.small_crops", "0",
    ],
}  # fmt: skip
# The costly ones are drawn less often.
COMMANDS = {
    "load": 6, "evaluate": 6, "predict": 6, "suggest": 4, "resume": 3, "from": 2, "export": 2, "report": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run of each kind, in one folder with its data."""
    root, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    labels = np.arange(60) % 2
    rows = [
        f"{['cat', 'dog'][y] if i < 20 else ''},{rng.normal() + 2 * y},{'xy'[i % 3 // 2]}" for i, y in enumerate(labels)
    ]
    (root / "t.csv").write_text("\n".join(["kind,a,b", *rows]) + "\n")
    images = (rng.normal(120, 20, (60, 1, 8, 8)) + 30 * labels[:, None, None, None]).astype(np.uint8)
    np.savez(root / "d.npz", images=images[:40], labels=labels[:40], test_images=images[40:], test_labels=labels[40:])
    for name, (data, *options) in RUNS.items():
        out = ["--out", str(root / name), "--steps", "8", "--threads", "1", "--device", "cpu"]
        assert main(["fit", str(root / data), *options, *out]) == 0
    return root


@pytest.fixture(scope="module", autouse=True)
def limits():
    """Little memory; runs that do not go on for ever; and nothing of what torch itself does to write an ONNX file."""
    with pytest.MonkeyPatch.context() as patch:
        shown = Display.step

        def step(self, now):
            shown(self, now)
            if now >= STEPS:
                os.kill(os.getpid(), signal.SIGTERM)

        patch.setattr(Display, "step", step)
        patch.setattr("torch.onnx.export", exported)
        before = resource.getrlimit(resource.RLIMIT_AS)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, before[1]))
        yield
        resource.setrlimit(resource.RLIMIT_AS, before)


def exported(*_, **__):
    raise UserError("the network is ready to be written")


def words_of(command, run, data, out):
    """The command line."""
    return {
        "evaluate": ["evaluate", run],
        "predict": ["predict", run, data, "-o", out / "out.csv"],
        "suggest": ["suggest", run, "-n", "3", "-o", out / "suggest.csv"],
        "resume": ["fit", "--resume", run],
        "from": ["fit", "--from", run, "--out", out / "again"],
        "export": ["export", run, "--onnx", out / "model.onnx"],
        "report": ["report", run, "-o", out / "report.html"],
    }[command]


def read_in_python(run):
    """What is in the folder, by the library: 0, or 2 where it said what is wrong."""
    try:
        loaded = load(run)
        _ = loaded.history, loaded.labelled, loaded.task, loaded.network, loaded.raw_network
        return 0, ""
    except UserError as error:
        return 2, f"surelabel: {error}"


ended: Counter[tuple[str, int]] = Counter()


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_command_ends_with_success_or_one_message(runs, capsys, data):
    name = data.draw(st.sampled_from(sorted(RUNS)))
    command = data.draw(st.sampled_from([name for name, often in COMMANDS.items() for _ in range(often)]))
    with tempfile.TemporaryDirectory() as folder:
        run = copied(runs / name, Path(folder, "run"))
        file = data.draw(st.sampled_from(sorted(path.name for path in run.iterdir())))
        change(data.draw, run / file)
        capsys.readouterr()
        if command == "load":
            code, said = read_in_python(run)
        else:
            code = main([str(word) for word in words_of(command, run, runs / RUNS[name][0], Path(folder))])
            said = capsys.readouterr().err
        shutil.rmtree(run)
    assert code in (0, 2, 128 + signal.SIGTERM)
    assert "Traceback" not in said
    assert "weights_only" not in said
    if code == 2:
        assert said.count("surelabel: ") == 1
        assert len(said) < 2000
    ended[command, code] += 1


def test_the_fuzz_reached_both_ends():
    """Changes that nothing reads would test nothing."""
    print({f"{command} {code}": count for (command, code), count in sorted(ended.items())})
    assert {code for _, code in ended} >= {0, 2}
