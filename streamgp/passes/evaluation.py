"""How good a model is, in one pass: error, log loss, ranking, calibration, rejection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgp.arrays import Array, IntArray
from streamgp.passes.block import Block, Visitor
from streamgp.passes.scores import (
    CONFIDENCE_BINS,
    MASS_BINS,
    PLANE_BINS,
    PLANE_REACH,
    ClassScore,
    RealScore,
    added,
    log_odds_bins,
)
from streamgp.posterior import Marginals
from streamgp.posterior.predictive import ClassPredictive, RealPredictive


@dataclass(frozen=True)
class ClassEvaluation(Visitor[ClassScore]):
    """Compares predicted class probabilities with encoded labels; ``classes`` are the names of the labels."""

    predictive: ClassPredictive
    classes: tuple[Any, ...] = ()

    @property
    def needs_variance(self) -> bool:
        """Yes: probabilities depend on it."""
        return True

    def visit(self, block: Block) -> ClassScore:
        """Scores of one block."""
        assert block.marginals is not None
        assert block.targets is not None
        k = self.predictive.n_classes
        labelled = block.targets < k  # others have the code k
        mean, variance = block.marginals
        assert variance is not None
        marginals = Marginals(mean[labelled], variance[labelled])
        log_p = self.predictive.log_probabilities(marginals)
        p, truth = np.exp(log_p), block.targets[labelled].astype(np.intp)
        every = np.arange(len(truth))
        guess = self.predictive.decided(marginals, log_p)
        confidence = p[every, guess]
        bin_ = np.clip((confidence * CONFIDENCE_BINS).astype(np.intp), 0, CONFIDENCE_BINS - 1)

        def histogram(weights: Any = None) -> Array:
            return np.bincount(bin_, weights, CONFIDENCE_BINS)

        distance = (p**2).sum(axis=1) - 2 * p[every, truth] + 1
        return ClassScore(
            len(truth),
            -float(log_p[every, truth].sum()),
            float(distance.sum()),
            histogram(),
            histogram(guess != truth).astype(np.int64),
            histogram(confidence),
            np.bincount(k * truth + guess, minlength=k * k).reshape(k, k),
            _ranking(log_p, truth),
            self.classes,
        )

    def merge(self, earlier: ClassScore, later: ClassScore) -> ClassScore:
        """Scores of both."""
        return added(earlier, later)


def _ranking(log_probabilities: Array, truth: IntArray) -> IntArray:
    """Rows of each class and others, by the class's log odds.  Shape: (curves, 2, bins)."""
    places, bins = log_odds_bins(log_probabilities)
    positive = range(len(places)) if len(places) > 1 else [1]
    other = [(truth != label).astype(np.int64) for label in positive]
    return np.stack(
        [
            np.bincount(bins * rest + place, minlength=2 * bins).reshape(2, bins)
            for rest, place in zip(other, places, strict=True)
        ]
    )


@dataclass(frozen=True)
class RealEvaluation(Visitor[RealScore]):
    """Compares predicted means and variances with encoded targets."""

    predictive: RealPredictive

    @property
    def needs_variance(self) -> bool:
        """Yes: densities depend on it."""
        return True

    def visit(self, block: Block) -> RealScore:
        """Scores of one block."""
        assert block.marginals is not None
        assert block.targets is not None
        prediction = self.predictive.predict(block.marginals)
        shift, scale = self.predictive.targets.shift, self.predictive.targets.scale
        target = scale * block.targets
        residual = shift + target - prediction.mean
        mass = self.predictive.mass_below(block.targets, block.marginals)
        predicted = _plane_bins((prediction.mean - shift) / scale)
        places = PLANE_BINS * predicted + _plane_bins(block.targets)
        return RealScore(
            block.rows,
            float(residual @ residual),
            -float(self.predictive.log_density(block.targets, block.marginals).sum()),
            float(target.sum()),
            float(target @ target),
            np.bincount(np.minimum((MASS_BINS * mass).astype(np.intp), MASS_BINS - 1), minlength=MASS_BINS),
            np.bincount(places, minlength=PLANE_BINS**2).reshape(PLANE_BINS, PLANE_BINS),
            shift,
            scale,
        )

    def merge(self, earlier: RealScore, later: RealScore) -> RealScore:
        """Scores of both."""
        return added(earlier, later)


def _plane_bins(deviations: Array) -> IntArray:
    """The bin of values in deviations of the training targets; those beyond are in the outermost bins."""
    place = (deviations + PLANE_REACH) * (PLANE_BINS / (2 * PLANE_REACH))
    return np.clip(place, 0, PLANE_BINS - 1).astype(np.int64)
