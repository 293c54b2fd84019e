import numpy as np

from reward_ablation.analysis.statistics.known import mean_of_known


def test_means_leave_out_what_is_not_known():
    found = mean_of_known(np.array([[1.0, np.nan, np.nan], [3.0, 4.0, np.nan]]), 0)[0]
    assert list(found[:2]) == [2, 4]
    assert np.isnan(found[2])
