"""The real loading code, on small models that the tests save to a folder."""

import json
import os
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from surelabel.data.images.scaling import Scaling
from surelabel.models.encoders import open_encoder
from surelabel.utils.errors import UserError
from tests.helpers.photographs import normalised, photographs, seen_by

if find_spec("transformers") is None:
    pytest.skip("the extra `hf` is not installed", allow_module_level=True)
import transformers

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
PICTURES = SMALL | {"image_size": 56, "patch_size": 14}
TEXTS = SMALL | {"vocab_size": 40, "max_position_embeddings": 16}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
BIT = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 64}, "resample": 3, **IMAGENET}
CROPPED = BIT | {"crop_size": {"height": 56, "width": 56}}
SQUASHED = {"image_processor_type": "ViTImageProcessor", "size": {"height": 56, "width": 56}, "resample": 2, **IMAGENET}


def saved(folder, model, preprocessor=None, **files):
    """The folder of a model with random weights."""
    torch.manual_seed(1)
    model = model()
    for parameter in model.parameters():  # some are zero at first
        torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    for name, content in (files | ({"preprocessor_config": preprocessor} if preprocessor else {})).items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return model.eval()


def dinov2():
    return transformers.Dinov2Model(transformers.Dinov2Config(**PICTURES))


def vit(kind="ViTModel"):
    return getattr(transformers, kind)(transformers.ViTConfig(**PICTURES))


def clip(name="CLIP"):
    config = getattr(transformers, f"{name}Config")(text_config=TEXTS, vision_config=PICTURES)
    return getattr(transformers, f"{name}Model")(config)


def resnet():
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return transformers.ResNetModel(config)


KINDS = {
    "dinov2": (dinov2, CROPPED, lambda model, x: model(x).last_hidden_state[:, 0]),
    "vit": (vit, SQUASHED, lambda model, x: model(x).pooler_output),
    "vit without its pooler": (
        lambda: vit("ViTForImageClassification"), SQUASHED, lambda model, x: model.vit(x).last_hidden_state[:, 0]
    ),
    "clip": (clip, CROPPED | {"image_processor_type": "CLIPImageProcessor"}, lambda model, x: model.vision_model(x)[1]),
    "siglip": (
        lambda: clip("Siglip"), SQUASHED | {"image_processor_type": "SiglipImageProcessor"},
        lambda model, x: model.get_image_features(x).pooler_output,
    ),
    "resnet": (resnet, CROPPED, lambda model, x: model(x).pooler_output.flatten(1)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_transformers_on_its_own_preprocessing(tmp_path, kind):
    build, preprocessor, expected = KINDS[kind]
    model = saved(tmp_path, build, preprocessor)
    encoder = open_encoder(f"hf:{tmp_path}")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    theirs = processor(photographs(), return_tensors="pt")["pixel_values"]
    ours = seen_by(encoder, photographs())
    given = normalised(ours, encoder)
    assert (given - theirs).abs().mean() < 0.01  # theirs are cut after they were scaled and rounded
    with torch.no_grad():
        wanted = expected(model, given).numpy()
    assert encoder.dimensions == wanted.shape[1]
    np.testing.assert_allclose(encoder(ours), wanted, rtol=1e-4, atol=1e-5)
    assert np.abs(encoder(ours[:, :1]) - encoder(ours[:, :1].repeat(3, 1))).max() < 1e-6  # grey is seen in colour


@pytest.mark.parametrize(
    ("preprocessor", "side", "scaling"),
    [
        (CROPPED, 56, Scaling(56 / 64)),
        (SQUASHED, 56, Scaling(1.0, "bilinear", squash=True)),
        (SQUASHED | {"resample": 3, "do_normalize": False}, 56, Scaling(1.0, squash=True)),
        (
            {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 56}, "crop_pct": 0.875},
            56,
            Scaling(0.875),
        ),
    ],
)
def test_preprocessing_is_what_the_model_says(tmp_path, preprocessor, side, scaling):
    saved(tmp_path, dinov2, preprocessor)
    seen = open_encoder(f"hf:{tmp_path}").preprocessing
    assert (seen.side, seen.scaling) == (side, scaling)
    if not preprocessor.get("do_normalize", True):
        assert (seen.mean, seen.std) == ((0.0,) * 3, (255.0,) * 3)
    elif "image_mean" in preprocessor:
        np.testing.assert_allclose(np.array(seen.mean) / 255, preprocessor["image_mean"])


def test_another_size_is_read_by_interpolated_positions(tmp_path):
    model = saved(tmp_path, vit, SQUASHED)
    pictures = np.random.default_rng(0).integers(0, 256, (2, 3, 28, 28), dtype=np.uint8)
    encoder = open_encoder(f"hf:{tmp_path}", 28)
    with torch.no_grad():
        expected = model(normalised(pictures, encoder), interpolate_pos_encoding=True).pooler_output
    np.testing.assert_allclose(encoder(pictures), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match="10 × 10"):
        open_encoder(f"hf:{tmp_path}", 10)  # less than a patch


def test_the_fingerprint_is_of_weights_and_preprocessing(tmp_path):
    found = set()
    for number, (seed, preprocessor) in enumerate([(1, CROPPED), (1, CROPPED), (2, CROPPED), (1, SQUASHED)]):
        folder = tmp_path / str(number)
        saved(folder, dinov2, preprocessor)
        if seed == 2:
            model = dinov2()
            model.save_pretrained(folder)
        found.add(open_encoder(f"hf:{folder}").fingerprint)
    assert len(found) == 3


def refused(folder, named):
    with pytest.raises(UserError, match=named) as caught:
        open_encoder(f"hf:{folder}")
    assert str(folder) in str(caught.value)


def test_pickled_weights_are_refused_and_never_opened(tmp_path):
    saved(tmp_path, dinov2, CROPPED)
    (tmp_path / "model.safetensors").unlink()
    marker = tmp_path / "ran"

    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(marker),)

    torch.save({"weights": Harmful()}, tmp_path / "pytorch_model.bin")
    refused(tmp_path, r"pytorch_model\.bin")
    assert not marker.exists()


def test_a_model_that_brings_code_is_refused(tmp_path):
    saved(tmp_path, dinov2, CROPPED)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoModel": "mine.Mine", "AutoConfig": "mine.Settings"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    refused(tmp_path, "cannot be loaded")
    assert not (tmp_path / "ran").exists()


def test_models_that_cannot_describe_a_picture_are_refused(tmp_path):
    masked = transformers.ViTMAEConfig(**PICTURES, decoder_hidden_size=32, decoder_num_attention_heads=2)
    saved(tmp_path / "mae", lambda: transformers.ViTMAEModel(masked), SQUASHED)
    refused(tmp_path / "mae", "pooled output")
    saved(tmp_path / "wide", dinov2, SQUASHED | {"size": {"height": 56, "width": 28}})
    refused(tmp_path / "wide", "square")
    saved(tmp_path / "plain", dinov2)
    refused(tmp_path / "plain", "preprocessor_config")
    saved(tmp_path / "damaged", dinov2, CROPPED)
    weights = tmp_path / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    refused(tmp_path / "damaged", "cannot be loaded")


def test_incomplete_weights_are_refused(tmp_path):
    """They would be drawn at random."""
    from safetensors.torch import load_file, save_file

    saved(tmp_path, dinov2, CROPPED)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["layernorm.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    refused(tmp_path, "layernorm")


def bert(folder, **files):
    model = saved(folder, lambda: transformers.BertModel(transformers.BertConfig(**TEXTS)), **files)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "dog", "sat", "ran", "the", "mat"]
    transformers.BertTokenizer(vocab=dict(zip(words, range(len(words)), strict=True))).save_pretrained(folder)
    return model


TEXT = ["the cat sat", "a dog ran the mat the mat the cat ran a dog ran the mat the mat", "dog"]


@pytest.mark.parametrize("pooling", ["none", "mean", "cls"])
def test_texts_are_pooled_as_the_model_says(tmp_path, pooling):
    files = {}
    if pooling != "none":
        kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
        files["modules"] = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
        (tmp_path / "1_Pooling").mkdir()
        asked = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **asked}))
    model = bert(tmp_path, **files)
    encoder = open_encoder(f"hf:{tmp_path}")
    words = transformers.AutoTokenizer.from_pretrained(tmp_path)
    expected = []
    for text in TEXT:  # one by one: without padding
        given = words(text, truncation=True, max_length=16, return_tensors="pt")
        with torch.no_grad():
            tokens = model(**given).last_hidden_state[0]
        pooled = tokens[0] if pooling == "cls" else tokens.mean(0)
        expected.append((pooled if pooling == "none" else pooled / pooled.norm()).numpy())
    assert (encoder.reads, encoder.dimensions, encoder.preprocessing) == ("texts", 32, None)
    np.testing.assert_allclose(encoder(TEXT), expected, rtol=1e-4, atol=1e-5)


def test_other_words_are_another_fingerprint(tmp_path):
    bert(tmp_path)
    first = open_encoder(f"hf:{tmp_path}").fingerprint
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace('"cat"', '"cow"'))
    os.utime(path, (1, 1))
    assert open_encoder(f"hf:{tmp_path}").fingerprint != first


def test_an_unknown_pooling_is_refused(tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    bert(tmp_path, modules=[{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])
    refused(tmp_path, "max_tokens")
