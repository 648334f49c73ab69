"""A view that was cut still says whose rows it holds."""

import numpy as np

from hcsfed.types import View


def test_rows_keep_their_client_however_often_a_view_is_cut():
    view = View(np.arange(1, 6), np.full(5, 0.2), np.ones(5, bool), accuracies=np.arange(5.0), variances=np.arange(5.0))
    np.testing.assert_array_equal(view.ids, np.arange(5))
    cut = view.only(np.array([4, 1, 3])).only(np.array([0, 2]))
    np.testing.assert_array_equal(cut.ids, [4, 3])
    np.testing.assert_array_equal(cut.sizes, [5, 4])
    np.testing.assert_array_equal(cut.accuracies, [4, 3])
    np.testing.assert_array_equal(cut.variances, [4, 3])
    np.testing.assert_allclose(cut.weights, 0.5)
