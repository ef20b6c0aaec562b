"""What was planned and why, for people: explanation, candidates, drawings, kernels as text."""
