"""What a recipe is made of: settings and data in, nothing left open out."""

from streamgp.training.choices.resolve import PREDICTIVE, resolve
from streamgp.training.choices.values import Choices, Traits

__all__ = ["PREDICTIVE", "Choices", "Traits", "resolve"]
