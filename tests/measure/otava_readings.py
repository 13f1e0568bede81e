"""Find the series in which apache-otava sees a rise; runs with the Python of an environment that has it.

usage: otava_readings.py SERIES.npy FOUND.npy PVALUE [FIRST], where SERIES holds an array [series, run]. With FIRST a
change of either direction counts, if it is at this run or later.
"""

import sys
import warnings

import numpy
from otava.analysis import compute_change_points

warnings.simplefilter("ignore")
series, first = numpy.load(sys.argv[1]), int(sys.argv[4]) if len(sys.argv) > 4 else None
found = [compute_change_points(list(one), window_len=50, max_pvalue=float(sys.argv[3]))[0] for one in series]
counts = [any(c.stats.mean_2 > c.stats.mean_1 if first is None else c.index >= first for c in one) for one in found]
numpy.save(sys.argv[2], counts)
