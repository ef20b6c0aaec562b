"""CuPy's own C functions: which device and stream are current, arrays, memory, launches.

CuPy's extension modules list functions that others of them call, each with its signature in C as
the capsule's name; Cython compares these when it imports one, and so does `functions`. They are the
functions that CuPy itself calls for a kernel: they raise what CuPy raises, and let other threads
run where it does.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache
from typing import Any

_DIRECT = ", int __pyx_skip_dispatch)"
_POINTER = "struct __pyx_obj_4cupy_4cuda_6memory_MemoryPointer *"
_ARRAY = "struct __pyx_obj_4cupy_5_core_4core__ndarray_base *"
_SHAPE = "__pyx_t_4cupy_5_core_7_carray_shape_t const &"
_SIZES, _WORDS = ", ".join(["unsigned int"] * 7), ", ".join(["intptr_t"] * 3)
_RUNTIME, _DRIVER = "cupy_backends.cuda.api.runtime", "cupy_backends.cuda.api.driver"
#: name for the dispatcher -> (module, function, signature): alike in CuPy 13 and 14.
FUNCTIONS = {
    "current": (_RUNTIME, "getDevice", "int (int __pyx_skip_dispatch)"),
    "stream": ("cupy_backends.cuda.stream", "get_current_stream_ptr", "intptr_t (void)"),
    "capturing": (_RUNTIME, "streamIsCapturing", f"int (intptr_t{_DIRECT}"),
    "alloc": ("cupy.cuda.memory", "alloc", f"{_POINTER}(PyObject *{_DIRECT}"),
    "new": ("cupy._core.core", "_ndarray_init",
            f"{_ARRAY}(PyObject *, {_SHAPE}, PyObject *, PyObject *)"),
    "context": (_RUNTIME, "_ensure_context", "PyObject *(void)"),
    "launch": (_DRIVER, "launchKernel", f"PyObject *(intptr_t, {_SIZES}, {_WORDS}{_DIRECT}"),
}  # fmt: skip


@cache
def functions() -> dict[str, int] | None:
    """Addresses of CuPy's functions by the dispatcher's names; None where one is not as known."""
    found = {}
    for name, (module, function, signature) in FUNCTIONS.items():
        try:
            capsule = importlib.import_module(module).__pyx_capi__[function]
            found[name] = _address(capsule, signature.encode())
        except (ImportError, AttributeError, KeyError, ValueError):
            return None
    return found


def _address(capsule: Any, name: bytes) -> int:
    """What a capsule of a name holds.

    Raises:
        ValueError: it has another name.
    """
    take = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return int(take(capsule, name))
