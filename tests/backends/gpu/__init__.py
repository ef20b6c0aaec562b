"""Tests of the GPU backend that need no GPU, and those that run where there is one."""
