"""How many rows a chunk has that is written here; told without pyarrow."""

from __future__ import annotations

CHUNK_BYTES = 12_000_000
FEWEST_CHUNKS = 8
"""Chunks of small data: one task reads at least one chunk, and there should be work for several."""
FEWEST_ROWS = 256


def rows_per_chunk(n_rows: int, row_bytes: int, most_bytes: int = CHUNK_BYTES) -> int:
    """Rows of a chunk: about 12 MB of features, but several chunks where the data are small."""
    by_bytes = max(1, most_bytes // row_bytes)
    by_number = max(FEWEST_ROWS, -(-n_rows // FEWEST_CHUNKS))
    return max(1, min(by_bytes, by_number, n_rows))
