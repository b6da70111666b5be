import pytest

from surelabel.config.encoders import ENCODERS, FORMS, NGRAMS, check_installed, check_name, split_name
from surelabel.config.run import RunConfig
from surelabel.config.validate import validate
from surelabel.utils.errors import UserError


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("none", ("", "none", None)),
        *((name, ("", name, None)) for name in ENCODERS),
        ("hf:facebook/dinov2-base", ("hf", "facebook/dinov2-base", None)),
        ("hf:facebook/dinov2-base@a1b2", ("hf", "facebook/dinov2-base", "a1b2")),
        ("timm:resnet50.a1_in1k@v2", ("timm", "resnet50.a1_in1k", "v2")),
        ("open_clip:ViT-B-32:laion2b@v2", ("open_clip", "ViT-B-32:laion2b", "v2")),
        ("torchvision:resnet50", ("torchvision", "resnet50", None)),
        ("onnx:a/model.onnx", ("onnx", "a/model.onnx", None)),
    ],
)
def test_names_have_parts(name, parts):
    check_name(name)
    assert split_name(name) == parts


def test_a_folder_may_have_an_at_in_its_name(tmp_path):
    (tmp_path / "a@b").mkdir()
    assert split_name(f"hf:{tmp_path}/a@b") == ("hf", f"{tmp_path}/a@b", None)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("efficientnet-lite3", "efficientnet-lite"),
        ("dinov2", "hf:"),
        ("tim:resnet50", "timm"),
        ("hf:", "hf:NAME"),
        ("open_clip:ViT-B-32", "NAME:TAG"),
        ("torchvision:resnet50@v2", "revision"),
        ("onnx:m.onnx@v2", "revision"),
    ],
)
def test_wrong_names_are_refused_in_the_config(name, named):
    with pytest.raises(UserError, match=named):
        validate(RunConfig(encoder=name))


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setattr("surelabel.config.encoders.find_spec", lambda _: None)
    for form in set(FORMS) - {NGRAMS}:
        with pytest.raises(UserError, match="pip install 'surelabel"):
            check_installed(form)
