import json
from importlib.util import find_spec

import numpy as np
import pytest

from surelabel.data.images.scaling import Scaling
from surelabel.models.encoders import open_encoder
from surelabel.utils.errors import UserError

if find_spec("onnx") is None or find_spec("onnxruntime") is None:
    pytest.skip("the extra `export` is not installed", allow_module_level=True)
import onnx
from onnx import TensorProto, helper

COLOURS = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.3]}
FLOAT, BYTES = TensorProto.FLOAT, TensorProto.UINT8


def model(path, shape=("n", 3, 8, 8), kind=FLOAT, pooled=True, scale=2.0, **metadata):
    """The mean of each colour times `scale`, as a file."""
    nodes = [
        helper.make_node("Cast", ["pictures"], ["numbers"], to=FLOAT),
        helper.make_node("ReduceMean", ["numbers", "axes"], ["means"], keepdims=0 if pooled else 1),
        helper.make_node("Mul", ["means", "scale"], ["features"]),
    ]
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [2], [2, 3]),
        helper.make_tensor("scale", FLOAT, [1], [scale]),
    ]
    given = [helper.make_tensor_value_info("pictures", kind, shape)]
    made = [helper.make_tensor_value_info("features", FLOAT, [shape[0], 3] + ([] if pooled else [1, 1]))]
    whole = helper.make_model(
        helper.make_graph(nodes, "means", given, made, constants), opset_imports=[helper.make_opsetid("", 18)]
    )
    whole.ir_version = 10
    helper.set_model_props(whole, {key: json.dumps(value) for key, value in metadata.items()})
    onnx.save(whole, path)
    return f"onnx:{path}"


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize("shape", [("n", 3, 8, 8), (1, 3, 8, 8), ("n", 3, "h", "w")])
def test_features_of_normalised_pictures(tmp_path, pictures, shape):
    encoder = open_encoder(model(tmp_path / "m.onnx", shape, side=8, **COLOURS))
    normalised = (pictures / 255 - np.reshape(COLOURS["mean"], (3, 1, 1))) / np.reshape(COLOURS["std"], (3, 1, 1))
    np.testing.assert_allclose(encoder(pictures), 2 * normalised.mean((2, 3)), rtol=1e-4, atol=1e-5)
    assert encoder(pictures[:, :1]).shape == (5, 3)
    assert (encoder.dimensions, encoder.reads, encoder.preprocessing.side) == (3, "pictures", 8)


def test_pixels_as_they_are(tmp_path, pictures):
    encoder = open_encoder(model(tmp_path / "m.onnx", kind=BYTES))
    np.testing.assert_allclose(encoder(pictures), 2 * pictures.mean((2, 3)), rtol=1e-5)


def test_metadata_say_how_pictures_are_scaled(tmp_path):
    name = model(tmp_path / "m.onnx", ("n", 3, "h", "w"), BYTES, side=16, crop=0.9, interpolation="box", squash=True)
    assert open_encoder(name).preprocessing.scaling == Scaling(0.9, "box", True)
    assert open_encoder(name).preprocessing.side == 16
    assert open_encoder(name, 12).preprocessing.side == 12


def test_the_fingerprint_is_of_the_file_and_the_size(tmp_path):
    def found(file, scale=1.0, side=8):
        name = model(tmp_path / file, ("n", 3, "h", "w"), BYTES, scale=scale)
        return open_encoder(name, side).fingerprint

    assert found("a.onnx") == found("b.onnx")
    assert len({found("a.onnx"), found("c.onnx", scale=2.0), found("d.onnx", side=9)}) == 3


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "mean"),
        ({"kind": BYTES, "pooled": False}, "pooled output"),
        ({"kind": BYTES, "shape": ("n", 1, 8, 8)}, "8"),
        ({"kind": BYTES, "shape": (7, 3, 8, 8)}, "7"),
        ({"kind": BYTES, "shape": ("n", 3, "h", "w")}, "side"),
        ({"kind": TensorProto.INT64}, "int64"),
        ({"kind": BYTES, "interpolation": "cubic"}, "interpolation"),
        ({"mean": [0.5], "std": [1, 1, 1]}, "mean"),
        ({"mean": [0, 0, 0], "std": [1, 1, 0]}, "std"),
    ],
)
def test_a_file_that_does_not_say_enough_is_refused(tmp_path, given, named):
    with pytest.raises(UserError, match=named):
        open_encoder(model(tmp_path / "m.onnx", **given))


def test_no_model_is_refused(tmp_path):
    with pytest.raises(UserError, match="no file"):
        open_encoder(f"onnx:{tmp_path / 'absent.onnx'}")
    (tmp_path / "damaged.onnx").write_bytes(b"not a model")
    with pytest.raises(UserError, match="cannot be loaded"):
        open_encoder(f"onnx:{tmp_path / 'damaged.onnx'}")
