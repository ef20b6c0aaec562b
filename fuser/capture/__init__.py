"""What a function reaches besides its arguments, and the trace that runs it."""
