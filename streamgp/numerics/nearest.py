"""Nearest centres of rows, decided by distances that do not depend on how rows are cut into blocks."""

from __future__ import annotations

import numpy as np

from streamgp.arrays import Array, FloatArray, IntArray
from streamgp.numerics.compilation import compiled


@compiled(reassociate=False)
def settle_nearest(
    rows: Array, centres: FloatArray, rough: Array, slack: FloatArray, labels: IntArray, squares: FloatArray
) -> None:
    """The nearest centres of each row, by exact differences among those that rough values leave open.

    rough_ij = ½ |c_j|² − x_i·c_j, with error at most slack_i/2; those within slack of the k-th smallest are
    compared by Σ_q (x_iq − c_jq)², in order of q; of equal ones the lowest number comes first.
    Shapes: rows (n, p), centres (m, p), rough (n, m), slack (n,) → labels, squares (n, k), nearest first.
    Cost: O(n m k), and O(p) for each pair that is compared: little more than k a row.
    Hazard: sums in a matrix product depend on the shape of the block in their last bits, differences do not.
    """
    wanted = labels.shape[1]
    for i in range(rows.shape[0]):
        # The k-th smallest rough value, by insertion: k is two or three.
        smallest = np.full(wanted, np.inf)
        for j in range(centres.shape[0]):
            value = np.float64(rough[i, j])
            place = wanted
            while place > 0 and value < smallest[place - 1]:
                if place < wanted:
                    smallest[place] = smallest[place - 1]
                place -= 1
            if place < wanted:
                smallest[place] = value
        limit = smallest[wanted - 1] + slack[i]
        labels[i, :] = -1
        squares[i, :] = np.inf
        for j in range(centres.shape[0]):
            if rough[i, j] <= limit:
                square = 0.0
                for q in range(centres.shape[1]):
                    difference = np.float64(rows[i, q]) - centres[j, q]
                    square += difference * difference
                place = wanted
                while place > 0 and square < squares[i, place - 1]:
                    if place < wanted:
                        squares[i, place] = squares[i, place - 1]
                        labels[i, place] = labels[i, place - 1]
                    place -= 1
                if place < wanted:
                    squares[i, place] = square
                    labels[i, place] = j
