"""NumPy's functions on stand-ins, registered in one table by family."""

from functools import cache
from importlib import import_module

#: The files of this room that register functions in `fuser.ir.function_table`.
FAMILIES = (
    "array_functions", "as_written", "averages", "diagonals", "einsum", "element_of_each_row",
    "formulas", "gathers", "histograms", "in_place_functions", "nan_reductions", "reductions",
    "series", "splits_and_joins", "take_and_put", "ufunc_methods",
)  # fmt: skip


@cache
def load_families() -> None:
    """Import the families, which fill the table of handlers: once, when a first call asks."""
    for family in FAMILIES:
        import_module(f"fuser.numpy_functions.{family}")
