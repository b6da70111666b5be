import json

import numpy as np
import pytest

from tools import curves


def make_run(folder, method, seed, accuracies):
    folder.mkdir()
    (folder / "config.yaml").write_text(f"data: digits\nlabels: 40\nmethod: {method}\nseed: {seed}\n")
    rows = [{"step": 10 * (i + 1), "accuracy": value, "ece": 1 - value} for i, value in enumerate(accuracies)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def runs(tmp_path):
    return [
        make_run(tmp_path / "a", "paws", 0, [0.2, 0.4, 0.9]),
        make_run(tmp_path / "b", "paws", 1, [0.4, 0.6, 0.7]),
        make_run(tmp_path / "c", "paws+ema", 0, [0.1, 0.1, 0.1]),
    ]


def test_a_line_is_the_mean_over_seeds_of_a_method(runs):
    accuracy, ece = curves.draw(runs, 1).axes
    mean, other = accuracy.lines
    assert mean.get_xdata().tolist() == [10, 20, 30]
    np.testing.assert_allclose(mean.get_ydata(), [0.3, 0.5, 0.8])
    assert mean.get_label() == "paws (2 seeds)"
    np.testing.assert_allclose(other.get_ydata(), 0.1)
    np.testing.assert_allclose(ece.lines[0].get_ydata(), [0.7, 0.5, 0.2])


def test_smoothing_is_a_running_mean_of_what_came_before(runs):
    accuracy, _ = curves.draw(runs[:1], 2).axes
    np.testing.assert_allclose(accuracy.lines[0].get_ydata(), [0.2, 0.3, 0.65])
