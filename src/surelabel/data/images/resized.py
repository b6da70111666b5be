"""Pictures in memory at another size, as files are scaled when they are read."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from surelabel.data.source import Derived, Images, Source, image_shape


class Resized(Derived):
    """The uint8 pictures of a source, scaled to cover size × size pixels and centre-cropped.

    Of large ones only the share `crop` of each side is seen, as in `decode`.
    """

    def __init__(self, whole: Source, size: int, crop: float = 1.0) -> None:
        super().__init__(whole)
        self.channels, height, width = image_shape(whole.shape)
        self.size = size
        self.shape = (self.channels, size, size)
        self.border = (1 - crop) / 2 if min(height, width) >= size else 0.0

    def samples(self, index: NDArray[np.int64]) -> Images:
        return np.stack([self._scaled(picture) for picture in self.whole.samples(index)])

    def content(self) -> Iterator[bytes]:
        if self.border:
            yield str(self.border).encode()
        yield from self.whole.content()

    def _scaled(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        image = Image.fromarray(picture[0] if self.channels == 1 else picture.transpose(1, 2, 0))
        pixels = np.asarray(ImageOps.fit(image, (self.size, self.size), Image.Resampling.BICUBIC, bleed=self.border))
        return pixels[None] if self.channels == 1 else pixels.transpose(2, 0, 1)
