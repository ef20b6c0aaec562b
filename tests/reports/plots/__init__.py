"""Tests of reports/plots."""
