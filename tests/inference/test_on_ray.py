"""On a cluster of two workers, where ray is installed: it is no dependency of the tests."""

import os
import signal
from dataclasses import replace
from functools import partial

import pytest

from surelabel.cli.main import main
from surelabel.config.run import Evaluation
from surelabel.data.join import join
from surelabel.data.part import Part
from surelabel.inference.on_ray import Asked, connected, missing_parts, predict_part, run_parts
from tests.helpers.runs import fit_folder
from tests.helpers.tables import table_run

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray", reason="needs the extra ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


@pytest.fixture
def predicted(tmp_path):
    """A run, new rows, and what one process predicts of them."""
    lines = [f"{x % 17 + x / 1000},{'abc'[x % 3]},{x % 2}\n" for x in range(250)]
    (tmp_path / "t.csv").write_text("size,kind,label\n" + "".join(lines))
    run = fit_folder(table_run(tmp_path / "t.csv", tmp_path / "run", evaluation=Evaluation(1000, batch=20))).path
    assert main(["predict", str(run), str(tmp_path / "t.csv"), "-o", str(tmp_path / "one.csv")]) == 0
    return [str(run), str(tmp_path / "t.csv")]


def killed_once(asked, marker, part):
    """Predict a part; the first worker that has the third one dies of it."""
    if part.number == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return predict_part(asked, part)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(cluster, predicted, tmp_path):
    asked, marker = Asked(*predicted, str(tmp_path / "out.csv")), tmp_path / "killed"
    ray = connected(cluster.address)
    try:
        assert len([node for node in ray.nodes() if node["Resources"].get("CPU")]) == 2
        parts = [Part(number, 5) for number in range(1, 6)]
        assert run_parts(partial(killed_once, asked, marker), parts) == 250
    finally:
        ray.shutdown()
    assert marker.exists()
    join(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


@pytest.mark.slow
def test_the_command_joins_what_the_cluster_has_predicted(cluster, predicted, tmp_path, capsys):
    words = ["predict", *predicted, "-o", str(tmp_path / "out.csv"), "--ray", cluster.address, "--parts", "4"]
    assert main(words) == 0
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert not [path.name for path in tmp_path.iterdir() if "part" in path.name]
    (tmp_path / "bad.csv").write_text("kind\na\n")
    words[2] = str(tmp_path / "bad.csv")
    assert main(words) == 2
    assert "lacks the column 'size'" in capsys.readouterr().err


def test_what_an_earlier_call_has_written_is_kept(predicted, tmp_path):
    asked = Asked(*predicted, str(tmp_path / "out.csv"))
    assert missing_parts(asked, 4) == [1, 2, 3, 4]
    predict_part(asked, Part(2, 4))
    assert missing_parts(asked, 4) == [1, 3, 4]
    assert missing_parts(replace(asked, all_probabilities=True), 4) == [1, 2, 3, 4], "other columns"
    assert not Part(2, 4).file(tmp_path / "out.csv").exists()


@pytest.mark.parametrize("more", [["--calibrate", "x.csv"], ["--part", "1/2"]])
def test_what_does_not_go_together_is_told(more, capsys):
    assert main(["predict", "nowhere", "nothing", "-o", "out.csv", "--ray", "local", *more]) == 2
    assert "--ray does not go together" in capsys.readouterr().err
