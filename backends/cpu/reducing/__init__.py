"""Loop nests that reduce, as LLVM IR text: rows, columns, parts of long rows."""
