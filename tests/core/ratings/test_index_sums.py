import numpy as np

from tiltyard.core.ratings.index_sums import laplacians


def test_laplacians_are_those_that_loops_make():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, 30)
    b, cluster, value = (a + rng.integers(1, 4, 30)) % 4, rng.integers(0, 3, 30), rng.random(30)
    expected = np.zeros((5, 4, 4))
    for row in range(30):
        x = np.eye(4)[a[row]] - np.eye(4)[b[row]]
        expected[cluster[row]] += value[row] * np.outer(x, x)
    np.testing.assert_allclose(laplacians(a, b, value, cluster, (5, 4)), expected, atol=1e-12)
