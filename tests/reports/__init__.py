"""The tests of fuser.reports; `synthetic` makes records whose true ratios are known."""
