"""Tests of suites/probes."""
