"""The native entry of fused functions: from the interpreter to the kernel without Python."""
