"""How a picture is brought to the size that a network takes."""

from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageOps

Interpolation = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]


@dataclass(frozen=True)
class Scaling:
    """Scale to cover the size and cut off what is beyond it; or, with `squash`, to the size whatever the proportions.

    Of a picture at least as large as the size, only the share `crop` of each side is seen, as networks were trained on
    photographs, whose thing has some room around it; a smaller picture was cut out by somebody already.
    """

    crop: float = 1.0
    interpolation: Interpolation = "bicubic"
    squash: bool = False

    def scaled(self, image: Image.Image, width: int, height: int) -> Image.Image:
        """The picture at this size; itself if it has it."""
        if image.size == (width, height):
            return image
        method = Image.Resampling[self.interpolation.upper()]
        is_large = image.width >= width and image.height >= height
        border = (1 - self.crop) / 2 if is_large else 0.0
        if not self.squash:
            return ImageOps.fit(image, (width, height), method, bleed=border)
        across, down = border * image.width, border * image.height
        return image.resize((width, height), method, (across, down, image.width - across, image.height - down))


PLAIN = Scaling()
