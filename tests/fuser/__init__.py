"""Tests of the core: one file for each file of fuser/."""
