"""Pictures in memory at another size, as files are scaled when they are read."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from surelabel.data.images.scaling import PLAIN, Scaling
from surelabel.data.source import Derived, Images, Source, image_shape


class Resized(Derived):
    """The uint8 pictures of a source at size × size pixels."""

    def __init__(self, whole: Source, size: int, scaling: Scaling = PLAIN) -> None:
        super().__init__(whole)
        self.channels, *_ = image_shape(whole.shape)
        self.size, self.scaling = size, scaling
        self.shape = (self.channels, size, size)

    def samples(self, index: NDArray[np.int64]) -> Images:
        return np.stack([self._scaled(picture) for picture in self.whole.samples(index)])

    def content(self) -> Iterator[bytes]:
        yield repr(self.scaling).encode()
        yield from self.whole.content()

    def _scaled(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        image = Image.fromarray(picture[0] if self.channels == 1 else picture.transpose(1, 2, 0))
        pixels = np.asarray(self.scaling.scaled(image, self.size, self.size))
        return pixels[None] if self.channels == 1 else pixels.transpose(2, 0, 1)
