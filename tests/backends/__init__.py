"""Tests of the backends: one suite that they share, and what is each one's own."""
