"""What the active set says about the latent function: pure steps on sites and factors."""

from streamgp.inference.adf import filter_sites
from streamgp.inference.ep import Propagated, expectation_propagation
from streamgp.inference.sites import Sites, head_from_sites

__all__ = ["Propagated", "Sites", "expectation_propagation", "filter_sites", "head_from_sites"]
