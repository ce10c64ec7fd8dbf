"""Local blocks [PIC2007]: error and log density by block size and inducing inputs, beside FITC and exact GPs.

    python -m benchmarks.papers.local_blocks --sets uci_kin40k uci_protein ijcnn1
    python -m benchmarks.papers.local_blocks --sets uci_kin40k --block-rows 500 --inducing 300 --seeds 0 1 2
    python -m benchmarks.papers.local_blocks --sets --picture local_blocks.svg

Split 0, real targets in standard deviations of the training rows. ``exact subset`` is an exact process (of
classes: expectation propagation of all rows) on ``--subset`` random rows: one block of all of them. Published
are exact GPs on all rows (Wang et al. 2019, arXiv 1903.08114, and later), on other splits: kin40k RMSE 0.065
to 0.080, protein 0.511 to 0.538. The picture is a fit in one dimension across the borders of blocks: by the
nearest block alone, and by the two nearest.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import Array, Split, load_split
from benchmarks.harness import DATA, Options, Row, Rows, Script, defaults, measured, option
from streamgp import StreamGPClassifier, StreamGPRegressor
from streamgp.kernels import Matern32
from streamgp.likelihoods import Gaussian
from streamgp.settings import Local

PUBLISHED = {"uci_kin40k": "0.065 to 0.080", "uci_protein": "0.511 to 0.538"}
"""RMSE of exact GPs on all rows, the best and the worst of those published."""
SETS = (*PUBLISHED, "ijcnn1")
WIDTH, HEIGHT, MARGIN = 720, 300, 12
COLOURS = {1: "#c0392b", 2: "#1f5fa8"}


def fit_row(split: Split, options: Options, inducing: int, seed: int, **parameters: Any) -> Row:
    """One fit and its scores."""
    kind = StreamGPRegressor if split.y_train.dtype.kind == "f" else StreamGPClassifier
    model = kind(
        min(inducing, len(split.y_train)),
        memory_budget=options.memory_budget,
        random_state=seed,
        **parameters,
    )
    begun = time.process_time()
    row = {"seed": seed, **measured(model, split)}
    return {**row, "cpu_seconds": round(time.process_time() - begun, 1)}


def rows(options: Options) -> Rows:
    for name in options.sets:
        split, published = load_split(name, options).drawn(options.rows), {}
        if name in PUBLISHED:
            deviation, published = split.y_train.std(), {"paper_rmse": PUBLISHED[name]}
            split = split._replace(y_train=split.y_train / deviation, y_test=split.y_test / deviation)
        for seed in options.seeds:
            for inducing in options.inducing:
                fitc = fit_row(split, options, inducing, seed, inference="fitc", selection="kmeans")
                yield {"set": name, "method": "fitc", **fitc, **published}
                for block_rows in options.block_rows:
                    blocks = fit_row(split, options, inducing, seed, inference=Local(block_rows))
                    found = {"method": "local blocks", "block_rows": block_rows, **blocks}
                    yield {"set": name, **found, **published}
            subset = split.drawn(options.subset)
            exact = fit_row(subset, options, 10, seed, inference=Local(options.subset))
            yield {"set": name, "method": "exact subset", **exact, **published}
    if options.picture is not None:
        yield picture(Path(options.picture))


def picture(path: Path) -> Row:
    """Write the picture, and say the largest jump by one block and by two."""
    generator = np.random.default_rng(1)
    X = np.sort(generator.uniform(-3.0, 3.0, 240))[:, None]
    y = np.sin(3.0 * X[:, 0]) + 0.5 * np.sin(9.0 * X[:, 0]) + 0.3 * generator.standard_normal(240)
    new = np.linspace(-3.2, 3.2, 2001)[:, None]
    found, jumps = {}, {}
    for neighbours in (1, 2):
        model = StreamGPRegressor(
            6,
            inference=Local(30, neighbours),
            kernel=Matern32(1.0, 0.4),
            likelihood=Gaussian(0.09),
            learn_hyperparameters=False,
            standardize=False,
            random_state=0,
        ).fit(X, y)
        found[neighbours] = model.predict(new, return_std=True)
        # Of a line without jumps second differences are small, however steep it is.
        jumps[neighbours] = float(np.abs(np.diff(found[neighbours][0], 2)).max())
    centres = np.sort(model.model_.snapshot.table.centres[:, 0] * model.model_.snapshot.table.scale[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(drawing(X[:, 0], y, new[:, 0], found, 0.5 * (centres[1:] + centres[:-1])))
    return {
        "method": "picture",
        "blocks": len(centres),
        "largest_jump_one": jumps[1],
        "largest_jump_two": jumps[2],
    }


def drawing(X: Array, y: Array, new: Array, found: dict[int, tuple[Array, Array]], borders: Array) -> str:
    """The picture as SVG: rows, borders, both means, and two deviations of the second."""
    low, high = float(y.min()) - 0.5, float(y.max()) + 0.5

    def place(x: Array, value: Array) -> str:
        across = MARGIN + (x - new[0]) / (new[-1] - new[0]) * (WIDTH - 2 * MARGIN)
        down = HEIGHT - MARGIN - (value - low) / (high - low) * (HEIGHT - 2 * MARGIN)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))

    mean, deviation = found[2]
    band = place(np.concatenate([new, new[::-1]]), np.r_[mean + 2 * deviation, (mean - 2 * deviation)[::-1]])
    shapes = [f'<polygon points="{band}" fill="{COLOURS[2]}" opacity="0.15"/>']
    for border in borders:
        ends = place(np.array([border, border]), np.array([low, high]))
        shapes.append(f'<polyline points="{ends}" stroke="#999" stroke-dasharray="3 4" fill="none"/>')
    points = (point.split(",") for point in place(X, y).split())
    shapes += [f'<circle cx="{a}" cy="{b}" r="1.8" fill="#555"/>' for a, b in points]
    for neighbours, (mean, _) in found.items():
        line = place(new, mean)
        shapes.append(f'<polyline points="{line}" stroke="{COLOURS[neighbours]}" fill="none"/>')
    title = (
        "A fit across block borders (dashed): nearest block alone (red), two nearest (blue, two deviations)"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, f"<title>{title}</title>", background, *shapes, "</svg>"]) + "\n"


OPTIONS = (
    *DATA,
    option("--sets", list(SETS), choices=SETS, nargs="*"),
    option("--picture", None, "where the picture is written, as SVG"),
    *defaults(block_rows=[300, 500, 1000], inducing=[100, 300, 500], subset=2000),
    *defaults(seeds=[0], memory_budget="2GiB"),
)
SCRIPT = Script("local_blocks", __doc__, rows, OPTIONS)

if __name__ == "__main__":
    SCRIPT.main()
