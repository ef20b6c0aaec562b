"""What the kernels of a backend can do, as far as plans depend on it: declared, never asked for."""

from __future__ import annotations

from fuser.base.records import record


@record
class Capabilities:
    """A backend's declaration. What is not declared is planned around, before the first launch.

    Attributes:
        complex_values: kernels have complex values; else their real and imaginary parts are values
            of their own (`fuser.passes.complex_parts`).
        row_tiles: loop nests may run one after another for some rows at a time
            (`fuser.scheduling.row_tiles`); else what lies between them is stored.
        scans: results may run along an axis (cumsum); else NumPy, or CuPy, runs them.
        scatters: elements may be written at computed places (np.bincount); else NumPy, or CuPy,
            writes them.
        repeats: a loop nest may be run several times for one block of elements after another
            (`fuser.programs.interchange`); else each iteration of a loop is a kernel.
        stores_last: a loop nest of several outputs reads an element of all inputs before it writes
            any output there: then outputs may be inputs.
        each_stores_last: that holds of each loop nest of a kernel of several.
        element_loops: loops over single elements have kernels (`fuser.element_loops`); else each
            of their statements is an operation, or the plain function's.
    """

    complex_values: bool = False
    row_tiles: bool = False
    scans: bool = False
    scatters: bool = False
    repeats: bool = False
    stores_last: bool = False
    each_stores_last: bool = False
    element_loops: bool = False
