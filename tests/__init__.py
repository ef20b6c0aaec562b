"""The tests of fuser and fuser-bench: run them with `tox` or with `pytest` from the root."""
