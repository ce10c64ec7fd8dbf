"""The compiled half of streamgp: arrays in, arrays out.

The only folder that uses Numba. Nothing here knows Dask, Zarr or scikit-learn; nothing here keeps state.
"""
