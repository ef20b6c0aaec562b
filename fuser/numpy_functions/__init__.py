"""NumPy's functions on stand-ins, registered in one table by family."""
