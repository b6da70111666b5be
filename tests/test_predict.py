import csv

import numpy as np
import pytest
import torch

from surelabel.errors import UserError
from surelabel.fit import fit, load_network
from surelabel.predict import predict_to_csv


def test_a_line_a_sample_with_the_likeliest_class_and_its_probability(tiny, tmp_path, digits_data):
    folder = fit(tiny)
    images = digits_data.test.images(np.arange(30))
    np.save(tmp_path / "new.npy", images)
    assert predict_to_csv(folder.path, str(tmp_path / "new.npy"), None, tmp_path / "out.csv") == 30
    with (tmp_path / "out.csv").open() as file:
        lines = list(csv.DictReader(file))
    probs = load_network(folder).predict(torch.from_numpy(images)).probs
    assert [line["class"] for line in lines] == [str(k) for k in probs.argmax(1).tolist()]
    assert [float(line["confidence"]) for line in lines] == pytest.approx(probs.amax(1).tolist(), abs=1e-6)


def test_images_of_another_shape_are_refused_by_both_shapes(tiny, tmp_path):
    folder = fit(tiny)
    np.save(tmp_path / "new.npy", np.zeros((5, 3, 9, 9), dtype=np.uint8))
    with pytest.raises(UserError, match=r"3 channels and 9×9 pixels.*takes 1 channel and 8×8"):
        predict_to_csv(folder.path, str(tmp_path / "new.npy"), None, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
