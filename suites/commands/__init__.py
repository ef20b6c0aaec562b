"""The command `fuser-bench`: what it takes, shows and ends with."""
