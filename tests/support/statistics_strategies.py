"""Series of figures of any kind, for property-based tests: ordinary, missing, extreme, constant, empty."""

from __future__ import annotations

import math

from hypothesis import strategies as st

FIGURES = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, 5.0, 1e-300, 1e300, math.nan, math.inf]))
SERIES = st.one_of(
    st.lists(FIGURES, max_size=14),
    st.builds(lambda value, n: [value] * n, st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 12)),
)
