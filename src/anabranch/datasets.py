"""Small data sets that travel with the package, so that examples and tests need no network.

They load as plain NumPy arrays: nothing here knows a Tensor.
"""

from importlib.resources import files
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Digits(NamedTuple):
    """Handwritten digits: one image a row, and the digit that it shows."""

    images: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        return f"Digits({len(self.labels)} images of {self.images.shape[1]} pixels)"


def digits() -> Digits:
    """1,797 handwritten digits of 8 by 8 pixels.

    ``images`` is float64 of shape (1797, 64), each row an image read line by line, each pixel the
    ink in it from 0 to 16.  ``labels`` is int64 of shape (1797,), the digits 0 to 9.  Each call
    returns fresh arrays.

    The data is the test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and
    C. Kaynak (1998), UCI Machine Learning Repository, licensed CC BY 4.0.

    >>> images, labels = digits()
    >>> images.shape, int(labels[0])
    ((1797, 64), 0)
    """
    with (files(__package__) / "data" / "uci_digits.npz").open("rb") as file, np.load(file) as data:
        return Digits(data["images"].astype(np.float64), data["labels"].astype(np.int64))
