"""Tests of suites/checks."""
