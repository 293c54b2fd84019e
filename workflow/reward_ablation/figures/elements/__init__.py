"""Parts that several figures share: styles, curves, points with intervals, forest plots, matrices of weights."""
