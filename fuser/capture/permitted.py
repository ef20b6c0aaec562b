"""What depends on its operands alone: functions that a trace may call, and kinds that it may read.

A trace runs the function once, and a fused call never again. So whatever a result may depend on
besides operands has to be seen: files, clocks, settings, memory of foreign types. No list of those
could be complete. This one says what is known; all else is a reason to run NumPy.
"""

from __future__ import annotations

import io
import sys
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType
from typing import Any

import numpy as np

from fuser.base.packages import STABLE
from fuser.base.protocols import is_a, module_of
from fuser.ir.opaque_calls import FILES

#: Modules in C whose functions compute with what they are given, and change nothing else.
_COMPUTING = frozenset(
    "math cmath _operator operator itertools _functools functools _collections _heapq _bisect "
    "_statistics _struct struct _string binascii zlib unicodedata _json _pickle _sre _abc _weakref "
    "_warnings _codecs _random array _datetime datetime cupy".split()
)
#: Others, of modules that do more.
_SINGLE = frozenset((("posix", "fspath"), ("nt", "fspath"), ("sys", "intern"), ("sys", "exc_info")))
#: Built-in functions that do more, or that tell of more, than of what they are given.
_OTHER_BUILTINS = frozenset("print input open breakpoint exit quit help".split())
#: Functions in C of NumPy's.
_NUMPY = frozenset(
    "array asarray asanyarray ascontiguousarray asfortranarray zeros empty arange frombuffer "
    "fromiter fromstring from_dlpack promote_types result_type can_cast min_scalar_type "
    "nested_iters datetime_data frompyfunc normalize_axis_index count_nonzero where concatenate "
    "dot vdot inner lexsort ravel_multi_index unravel_index bincount interp packbits unpackbits "
    "putmask copyto shares_memory may_share_memory is_busday busday_count busday_offset "
    "datetime_as_string empty_like correlate scalar".split()
)
#: Modules of NumPy's in Python, without underscores around their last names, and `impl`.
_NUMPY_MODULES = frozenset(
    "numpy fromnumeric numeric shape_base function_base methods multiarray numerictypes umath "
    "einsumfunc getlimits dtype asarray internal exceptions overrides records defchararray "
    "string_helpers type_aliases array_utils arraypad arraysetops arrayterator histograms "
    "index_tricks nanfunctions polynomial scimath stride_tricks twodim_base type_check ufunclike "
    "mixins linalg fft pocketfft helper chebyshev hermite hermite_e laguerre legendre polybase "
    "polyutils core extras ma defmatrix matrixlib strings char inspect ufunc_config".split()
)
#: Functions in those that read or write what is no operand.
_OTHER_NUMPY = FILES | frozenset(
    "get_include geterr seterrcall geterrcall setbufsize getbufsize show_config info "
    "tofile dump dumps __repr__ __str__ print_array_function_result".split()
)
#: Packages of SciPy's.
_SCIPY = frozenset(
    "special fft ndimage signal linalg sparse integrate interpolate optimize spatial stats cluster "
    "constants _lib odr".split()
)
#: Code of these packages calls what it needs: what they are asked is looked at.
_TRUSTED = STABLE | frozenset(
    "logging warnings threading _weakrefset weakref importlib _frozen_importlib "
    "_frozen_importlib_external zipimport encodings fractions".split()
)
#: Types in C, beside those of `STABLE`, whose objects never change, or are compared by content.
_KINDS = STABLE | frozenset(
    "datetime array _random random weakref _weakref _json _collections _functools _abc".split()
)
#: Methods of some of them, and of classes, that tell of more than of the object.
_OTHER_METHODS = frozenset("now utcnow today fromtimestamp tofile fromfile dump astimezone".split())
#: Memory that is read as a file, which a function may have for itself.
_OWN = (io.StringIO, io.BytesIO)
#: Locks: code may hold one while it runs; what else it does with one is seen when it does.
_LOCKS = frozenset(("lock", "RLock"))
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8
_WORD = 8


def is_permitted(function: Any) -> bool:
    """Whether what a function in C gives depends on what it is given alone.

    Args:
        function: a built-in function or method.
    """
    name, owner = function.__name__, getattr(function, "__self__", None)
    if name == "__exit__" or (name == "__enter__" and type(owner).__name__ in _LOCKS):
        return True  # what is held is let go; CPython before 3.14 shows no call of `__enter__`
    module = getattr(function, "__module__", None)
    if module is None and owner is not None and type(owner) is not type(sys):
        kinds = owner.__mro__ if is_a(owner, type) else type(owner).__mro__
        kind = next((kind for kind in kinds if name in vars(kind)), object)
        own = any(kind is each for each in _OWN)
        known = own or module_of(kind).partition(".")[0] in _KINDS
        return known and name not in _OTHER_METHODS
    if module is None:
        return name in _NUMPY or (hasattr(np, name) and getattr(np, name) is function)
    root = module.partition(".")[0]
    if root == "builtins":
        return name not in _OTHER_BUILTINS
    if root == "numpy":
        return name in _NUMPY or module.startswith("numpy.random")
    if module == "_random" or root == "random":
        return True  # states of generators are looked at themselves
    return root in _COMPUTING or (root, name) in _SINGLE


def is_permitted_code(module: str, name: str) -> bool:
    """Whether a Python function of a known package depends on what it is given alone.

    Args:
        module: its module.
        name: what it is called there.
    """
    root, _, rest = module.partition(".")
    if root == "scipy":
        return rest.partition(".")[0] in _SCIPY
    if root != "numpy":
        return True
    if rest.startswith("random"):
        return True  # states of generators are looked at themselves
    last = module.rpartition(".")[2].strip("_").removesuffix("_impl")
    return last in _NUMPY_MODULES and name not in _OTHER_NUMPY


def is_trusted(module: str) -> bool:
    """Whether code of a module is looked at where it is called, not where it calls."""
    return module.partition(".")[0] in _TRUSTED


def may_read(value: Any) -> bool:
    """Whether a function that a name stands for may depend on more than on what it is given."""
    if type(value) is BuiltinFunctionType:
        return not is_permitted(value)
    if type(value) is FunctionType:
        module = str(value.__globals__.get("__name__", ""))
        return not is_permitted_code(module, value.__name__)
    if type(value) is type(np.sum):
        return value.__name__ in _OTHER_NUMPY
    return type(value).__name__ in _LOCKS


def is_plain_array(value: Any) -> bool:
    """Whether an array is one whose writes are seen: no subclass's, and none of objects."""
    return type(value) is np.ndarray and not value.dtype.hasobject


def may_hold(kind: type) -> bool:
    """Whether objects that code makes of a class may hold more, or do more when they go."""
    if any(kind is each for each in _OWN):
        return False
    spaces = (told(each, "__dict__") for each in told(kind, "__mro__"))
    return not is_open(kind) or any(type(s.get("__del__")) is FunctionType for s in spaces)


def told(kind: type, name: str) -> Any:
    """What Python itself knows of a class; a class of classes may answer otherwise."""
    return type.__dict__[name].__get__(kind)


def is_open(kind: type) -> bool:
    """Whether objects of a class are no more than attributes, and what is known of built-in types.

    A class in C may hold anything: a place in a file, a connection, memory of another process.
    """
    return all(map(_adds_nothing, told(kind, "__mro__")))


def _adds_nothing(kind: type) -> bool:
    """Whether a class, without its bases, is known, or is Python code."""
    if module_of(kind).partition(".")[0] in _KINDS or told(kind, "__name__") in _LOCKS:
        return True
    flags, base = told(kind, "__flags__"), told(kind, "__base__")
    if not flags & _HEAP or flags & _IMMUTABLE or base is None:
        return False
    held = told(kind, "__dict__")
    slots = sum(type(part) is MemberDescriptorType for part in held.values())
    words = slots + ("__dict__" in held) + ("__weakref__" in held)
    sizes = told(kind, "__basicsize__"), told(base, "__basicsize__")
    return bool(sizes[0] - sizes[1] <= words * _WORD)
