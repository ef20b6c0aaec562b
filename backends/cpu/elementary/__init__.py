"""Elementary functions as vector LLVM IR: `table.ELEMENTARY` maps NumPy's names to builders."""
