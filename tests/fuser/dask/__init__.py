"""Tests of fuser/dask."""
