"""Where the memory goes, settled before the first read.

The budget B bounds everything that grows with the data, the active set or the number of threads. Rows per
block, rows per span and the number of candidates follow from B and the store alone, so that threads and
workers change the speed of a fit and never its result: they decide only how many tasks are in flight.
"""

from streamgp.training.plan.demand import Demand
from streamgp.training.plan.divide import make_plan
from streamgp.training.plan.memory import MemoryPlan

__all__ = ["Demand", "MemoryPlan", "make_plan"]
