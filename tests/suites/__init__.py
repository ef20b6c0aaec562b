"""Tests of the harness: one file for each file of suites/."""
