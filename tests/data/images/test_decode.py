import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps
from sklearn.datasets import load_sample_image

from surelabel.data.images import limits
from surelabel.data.images.decode import Header, decode, read_header

PHOTO = Image.fromarray(load_sample_image("china.jpg")).resize((60, 40))


def saved(path, image, **options):
    image.save(path, **options)
    return path


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        *((mode, "png") for mode in ("1", "L", "LA", "P", "RGB", "RGBA")),
        *((mode, "jpg") for mode in ("L", "RGB", "YCbCr", "CMYK")),
        *(("CMYK", "tif"), ("P", "gif"), ("RGB", "bmp"), ("RGB", "webp"), ("RGB", "ppm"), ("L", "pgm"), ("1", "pbm")),
    ],
)
def test_decode_equals_pillow_for_every_mode(tmp_path, mode, suffix):
    path = saved(tmp_path / f"x.{suffix}", PHOTO.convert(mode))
    with Image.open(path) as image:
        grey = image.mode in ("1", "L", "LA")
        assert read_header(path) == Header(40, 60, grey)
        np.testing.assert_array_equal(
            decode(path, 40, 60, grey=False), np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        )
        np.testing.assert_array_equal(decode(path, 40, 60, grey=True), np.asarray(image.convert("L"))[None])


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_decode_scales_sixteen_bits_to_eight(tmp_path, suffix, order):
    values = np.linspace(0, 65_535, 40 * 60).reshape(40, 60).astype(order)
    path = saved(tmp_path / f"x.{suffix}", Image.fromarray(values))
    assert read_header(path) == Header(40, 60, grey=True)
    np.testing.assert_array_equal(decode(path, 40, 60, grey=True)[0], np.rint(values / 257).astype(np.uint8))
    np.testing.assert_array_equal(decode(path, 40, 60, grey=False), decode(path, 40, 60, grey=True).repeat(3, axis=0))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_decode_turns_images_upright(tmp_path, orientation, suffix):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    path = saved(tmp_path / f"x.{suffix}", PHOTO, exif=exif)
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    header = read_header(path)
    if suffix in ("jpg", "webp"):
        assert (header.width, header.height) == upright.size
    pixels = decode(path, upright.height, upright.width, grey=False)
    np.testing.assert_array_equal(pixels, np.asarray(upright).transpose(2, 0, 1))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (10, 50), (80, 100)])
def test_decode_resizes_as_pillow_fit(tmp_path, height, width):
    path = saved(tmp_path / "x.png", PHOTO)
    expected = ImageOps.fit(PHOTO, (width, height), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(decode(path, height, width, grey=False), np.asarray(expected).transpose(2, 0, 1))


def test_decode_centre_crops_a_wide_image(tmp_path):
    wide = np.zeros((20, 60), np.uint8)
    wide[:, 20:40] = 200
    path = saved(tmp_path / "x.png", Image.fromarray(wide))
    np.testing.assert_array_equal(decode(path, 20, 20, grey=True), np.full((1, 20, 20), 200))


@pytest.mark.parametrize("read", [read_header, lambda path: decode(path, 8, 8, grey=False)])
@pytest.mark.parametrize(
    ("name", "content"),
    [("x.png", b""), ("x.png", b"no image"), ("x.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")],
)
def test_read_header_and_decode_reject_other_files(tmp_path, read, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((OSError, ValueError)):
        read(tmp_path / name)


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "webp", "tif"])
def test_decode_rejects_a_truncated_image(tmp_path, suffix):
    path = saved(tmp_path / f"x.{suffix}", PHOTO)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises((OSError, ValueError, SyntaxError)):
        decode(path, 8, 8, grey=False)


def test_decode_rejects_pixels_of_unknown_range(tmp_path):
    floats = saved(tmp_path / "f.tif", Image.fromarray(np.ones((4, 4), np.float32)))
    with pytest.raises(ValueError, match="floating-point"):
        decode(floats, 4, 4, grey=True)
    long = saved(tmp_path / "i.tif", Image.fromarray(np.full((4, 4), 70_000, np.int32)))
    with pytest.raises(ValueError, match="more than 16 bits"):
        decode(long, 4, 4, grey=True)


def test_read_header_rejects_too_large_images(tmp_path, monkeypatch):
    path = saved(tmp_path / "x.png", PHOTO)
    monkeypatch.setattr(limits, "most_pixels", lambda: 60 * 40 - 1)
    with pytest.raises(ValueError, match="60 × 40 pixels are more than"):
        read_header(path)
