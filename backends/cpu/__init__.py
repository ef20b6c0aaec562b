"""The CPU backend: LLVM IR text, compiled through llvmlite."""
