"""Which package a thing belongs to, and what is known of packages: one list.

A package is named by its root: "numpy" of `numpy.linalg`.
"""

from __future__ import annotations

import sys
from typing import Any

from fuser.base.protocols import is_a

#: Packages whose contents do not change, or that know what they are asked: no guards on them.
STABLE = frozenset(
    "numpy math cmath fuser cupy cupyx scipy builtins typing functools itertools operator "
    "abc bisect collections contextlib copy dataclasses enum heapq inspect numbers re statistics "
    "string types warnings array_api_compat".split()
)
#: Packages whose objects are never copied while a function is traced.
UNCOPIED = STABLE | {"pandas"}
#: Packages whose functions run as they are: they do not see arguments' shapes before NumPy does.
UNCHANGED = frozenset("numpy fuser scipy pandas cupy cupyx".split())
#: Packages that know stand-ins, or ask nothing of them that matters: not watched.
UNWATCHED = frozenset("fuser numpy abc collections copy enum functools contextlib re".split())
#: Packages whose own work may take long, and is not cut off at once.
COMPILED = frozenset("numpy cupy llvmlite".split())
#: Where threads wait for each other, or hold what others wait for.
WAITING = frozenset("threading queue concurrent multiprocessing asyncio".split())
#: Modules of classes whose methods are no Python code.
WITHOUT_CODE = frozenset("builtins numpy functools types abc typing".split())
#: Packages of the classes of classes that are known.
OF_CLASSES = frozenset("builtins abc typing".split())
#: The backend of each package's arrays.
ARRAYS = {"numpy": "cpu", "cupy": "gpu"}
#: Packages that have NumPy's functions by NumPy's names, for arrays of their own.
ALIKE = frozenset(("cupy", "cupyx"))
#: Packages whose objects are what backends work on, or no arrays: not asked for DLPack.
NO_FOREIGN_ARRAYS = frozenset((*ARRAYS, "builtins", "fuser"))
#: Classes of arrays that are computed later, by the modules that they are of.
LAZY = {"dask.array.core": "Array", "dask.array._array_expr._collection": "Array"}
#: Packages whose functions give what is computed later.
LATER = frozenset(module.partition(".")[0] for module in LAZY)
#: Packages whose objects are nobody's `self`: a method was called without its instance.
NO_INSTANCES = frozenset((*ARRAYS, "builtins"))
#: Modules of NumPy whose functions of arrays, and no others, NumPy runs between kernels. Which
#: these are NumPy says: they are universal functions, or dispatched by `__array_function__`.
NUMPY_MODULES = (
    "numpy", "numpy.linalg", "numpy.fft", "numpy.lib.scimath", "numpy.lib.stride_tricks",
)  # fmt: skip
#: Packages within SciPy whose functions depend on their arguments alone, and change none of them.
SCIPY_PACKAGES = frozenset("special fft ndimage signal linalg".split())
#: Modules of SciPy that have the routines of LAPACK and BLAS.
ROUTINES = ("scipy.linalg.lapack", "scipy.linalg.blas")
#: Where functions to be timed lie: they are users' code, though they are installed with ours.
WORKLOADS = "fuser.suites.families"


def root(place: Any) -> str:
    """The package that a module's name, or its namespace, belongs to."""
    name = str(place.get("__name__") if is_a(place, dict) else place)
    return WORKLOADS if name.startswith(WORKLOADS) else name.partition(".")[0]


def loaded(name: str) -> Any:
    """A module that has been imported to its end; None before.

    Another thread, or what a signal interrupted, may be in the middle of the import.
    """
    found = sys.modules.get(name)
    halfway = getattr(getattr(found, "__spec__", None), "_initializing", False)
    return None if halfway else found
