import pytest

from surelabel.inference.trained_run import evaluate_run
from surelabel.training.fit import fit
from surelabel.utils.errors import UserError
from tools.reliability_pair import write_pair


def test_the_picture_tells_each_runs_figures(tiny, tmp_path):
    folder = fit(tiny).path
    write_pair(folder, folder, tmp_path / "pair.svg")
    found = evaluate_run(folder)["averaged"]
    text = (tmp_path / "pair.svg").read_text()
    assert text.count(f"fixmatch: accuracy {found['accuracy']:.1%}, ECE {found['ece']:.3f}") == 2
    write_pair(folder, folder, tmp_path / "pair.png")
    assert (tmp_path / "pair.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"name an \.svg or a \.png file"):
        write_pair(folder, folder, tmp_path / "pair.gif")
