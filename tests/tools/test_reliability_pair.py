import pytest
import torch

from surelabel.equations import ece, equal_width_bins
from surelabel.inference.trained_run import load
from surelabel.utils.errors import UserError
from tests.helpers.runs import fit_folder
from tools.reliability_pair import reliability_pair, write_pair


@pytest.mark.slow
def test_write_pair_shows_the_metrics_of_each_run(tiny, tmp_path):
    folder = fit_folder(tiny).path
    write_pair(folder, folder, tmp_path / "pair.svg")
    found = load(folder).metrics["averaged"]
    text = (tmp_path / "pair.svg").read_text()
    assert text.count(f"fixmatch: accuracy {found['accuracy']:.1%}, ECE {found['ece']:.3f}") == 2
    write_pair(folder, folder, tmp_path / "pair.png")
    assert (tmp_path / "pair.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"name an \.svg or a \.png file"):
        write_pair(folder, folder, tmp_path / "pair.gif")


def test_reliability_pair_titles_show_accuracy_and_ece():
    random = torch.Generator().manual_seed(0)
    probs = (3 * torch.randn(500, 4, generator=random)).softmax(-1).double()
    labels = torch.randint(0, 4, (500,), generator=random)
    bins, sure = (
        equal_width_bins(probs, labels),
        equal_width_bins((probs**3) / (probs**3).sum(-1, keepdim=True), labels),
    )
    first, second, *_ = reliability_pair(sure, bins, ("$before$", "after")).axes
    accuracy = (probs.argmax(-1) == labels).double().mean().item()
    assert second.get_title() == f"after: accuracy {accuracy:.1%}, ECE {ece(probs, labels).item():.3f}"
    assert first.get_title().startswith("$before$")
    assert not first.title.get_parse_math()
