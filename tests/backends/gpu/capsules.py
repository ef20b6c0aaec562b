"""C functions in capsules, as CuPy's extension modules list them, over Python functions."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fuser.backends.gpu.c_functions import FUNCTIONS
from tests.requirements import find

#: Each calls the Python function of its name, and lets its exceptions through.
_TEXT = """\
#include <cstdint>
#include <vector>
extern "C" {
typedef struct _object PyObject;
PyObject *PyObject_CallFunction(PyObject *, const char *, ...);
PyObject *PyObject_CallFunctionObjArgs(PyObject *, ...);
PyObject *PyTuple_New(std::intptr_t);
int PyTuple_SetItem(PyObject *, std::intptr_t, PyObject *);
PyObject *PyLong_FromLongLong(long long);
long long PyLong_AsLongLong(PyObject *);
void Py_DecRef(PyObject *);
PyObject *current_of, *stream_of, *capturing_of, *alloc_of, *new_of, *context_of, *launch_of;

static long long number(PyObject *found) {
  if (!found) return -1;
  long long value = PyLong_AsLongLong(found);
  Py_DecRef(found);
  return value;
}
int current(int) { return number(PyObject_CallFunction(current_of, nullptr)); }
std::intptr_t stream() { return number(PyObject_CallFunction(stream_of, nullptr)); }
int capturing(std::intptr_t of, int) {
  return number(PyObject_CallFunction(capturing_of, "L", (long long)of));
}
PyObject *alloc(PyObject *size, int) {
  return PyObject_CallFunctionObjArgs(alloc_of, size, nullptr);
}
PyObject *context() { return PyObject_CallFunction(context_of, nullptr); }
PyObject *launch(std::intptr_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                 unsigned bz, unsigned shared, std::intptr_t stream, std::intptr_t arguments,
                 std::intptr_t extra, int) {
  return PyObject_CallFunction(launch_of, "LIIIIIIILLL", (long long)f, gx, gy, gz, bx, by, bz,
                               shared, (long long)stream, (long long)arguments, (long long)extra);
}
}
PyObject *make(PyObject *type, const std::vector<std::intptr_t> &shape, PyObject *dtype,
               PyObject *) asm("new");
PyObject *make(PyObject *type, const std::vector<std::intptr_t> &shape, PyObject *dtype,
               PyObject *) {
  PyObject *lengths = PyTuple_New(shape.end() - shape.begin());
  for (auto at = shape.begin(); at != shape.end(); ++at)
    PyTuple_SetItem(lengths, at - shape.begin(), PyLong_FromLongLong(*at));
  PyObject *made = PyObject_CallFunctionObjArgs(new_of, type, lengths, dtype, nullptr);
  Py_DecRef(lengths);
  return made;
}
"""


@cache
def _library() -> Any:
    """The functions, compiled once a process."""
    folder = tempfile.TemporaryDirectory(prefix="fuser-capsules-")
    _kept.append(folder)
    path = Path(folder.name) / "functions.so"
    command = [str(find("cxx")), "-std=c++17", "-O1", "-fno-exceptions", "-fPIC", "-shared",
               "-nostdlib", "-x", "c++", "-", "-o", str(path)]  # fmt: skip
    subprocess.run(command, input=_TEXT, text=True, check=True)
    return ctypes.PyDLL(str(path))


_kept: list[Any] = []


def capsules(called: Mapping[str, Callable[..., Any]]) -> dict[str, dict[str, Any]]:
    """What extension modules list, by module: capsules by the functions' names.

    Args:
        called: by the dispatcher's names, what each calls; they are kept for good.
    """
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    library, found = _library(), dict[str, dict[str, Any]]()
    for name, function in called.items():
        module, own, signature = FUNCTIONS[name]
        text = ctypes.create_string_buffer(signature.encode())
        _kept.extend([function, text])
        ctypes.c_void_p.in_dll(library, f"{name}_of").value = id(function)
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        found.setdefault(module, {})[own] = make(address, ctypes.addressof(text), None)
    return found
