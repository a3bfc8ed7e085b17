"""The data that the package carries is what its docstring says."""

import numpy as np

from anabranch import datasets


def test_digits_are_as_documented():
    images, labels = datasets.digits()
    assert images.shape == (1797, 64)
    assert images.dtype == np.float64
    assert (images.min(), images.max()) == (0, 16)
    assert labels.shape == (1797,)
    assert labels.dtype == np.int64
    # The counts and the sum are those of the source: a row lost or shuffled apart would show.
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert images.sum() == 561718


def test_each_call_returns_fresh_arrays():
    first, second = datasets.digits(), datasets.digits()
    first.images[:] = 0
    assert second.images.any()
