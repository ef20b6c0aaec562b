"""Tests of fuser/numpy_functions."""
