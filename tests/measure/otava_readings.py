"""Find the series in which apache-otava sees a rise; runs with the Python of an environment that has it.

usage: otava_readings.py SERIES.npy RISES.npy PVALUE, where SERIES holds an array [series, run].
"""

import sys
import warnings

import numpy
from otava.analysis import compute_change_points

warnings.simplefilter("ignore")
series = numpy.load(sys.argv[1])
found = [compute_change_points(list(one), window_len=50, max_pvalue=float(sys.argv[3]))[0] for one in series]
numpy.save(sys.argv[2], [any(c.stats.mean_2 > c.stats.mean_1 for c in one) for one in found])
