"""Fused functions in other processes: of modules, of scripts, methods, closures and lambdas."""

import copy
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import FunctionNotFoundError
from tests.children import said

X = np.arange(5.0)


@fuser.fuse
def doubled(x: Any) -> Any:
    """Of a module that can be imported."""
    return x * 2


class Scaled:
    """A method, and a function of one object's own."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.own = fuser.fuse(self.plain)

    def plain(self, x: Any) -> Any:
        """Not fused."""
        return x * self.scale

    @fuser.fuse
    def times(self, x: Any) -> Any:
        """Fused in the class."""
        return x * self.scale


#: A script: `sys.argv[1]` says how another process gets what it calls.
SCRIPT = """
import multiprocessing, pickle, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import fuser

X = np.arange(5.0)

@fuser.fuse
def scaled(x, k=2.0, *, b=1.0):
    "A function of the script."
    return x * k + b

@fuser.fuse(fallback="allow")
def countdown(x, n=3):
    return x if n == 0 else countdown(x * 2, n - 1)

def plain(x):
    return x + 1

class Scaled:
    def __init__(self, scale):
        self.scale = scale
    @fuser.fuse
    def times(self, x):
        return x * self.scale
    @staticmethod
    @fuser.fuse
    def same(x):
        return x * 7

def factory(k):
    return fuser.fuse(lambda x: x * k)

CALLS = [(scaled, (X,)), (countdown, (X,)), (fuser.fuse(plain, errstate=True), (X,)),
         (Scaled(3.0).times, (X,)), (Scaled.times, (Scaled(2.0), X)), (Scaled.same, (X,))]

def told(function):
    return type(function).__name__, function.__qualname__, function.__doc__, function.__module__

def check(run, calls):
    for function, args in calls:
        assert (run(function, *args) == function(*args)).all(), function
    assert run(told, scaled)[:3] == ("FusedFunction", "scaled", "A function of the script.")

if __name__ == "__main__":
    how = sys.argv[1]
    if how in ("spawn", "fork"):
        context = multiprocessing.get_context(how)
        with context.Pool(1) as pool:
            check(lambda function, *args: pool.apply(function, args), CALLS)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            check(lambda function, *args: pool.submit(function, *args).result(), CALLS)
        for protocol in range(6):
            assert pickle.loads(pickle.dumps(scaled, protocol)) is scaled
    else:
        CALLS += [(factory(5.0), (X,)), (fuser.fuse(lambda x: x - 1), (X,))]
    if how == "joblib":
        from joblib import Parallel, delayed
        check(lambda f, *args: Parallel(2)([delayed(f)(*args)] * 2)[1], CALLS)
    if how == "loky":
        from loky import get_reusable_executor
        check(lambda f, *args: get_reusable_executor(1).submit(f, *args).result(), CALLS)
    if how == "cloudpickle":
        import cloudpickle
        other = "import pickle, sys, fuser; scaled = fuser.fuse(lambda x: x - 1000); "
        other += "scaled.__qualname__ = 'scaled'; f, args = pickle.load(sys.stdin.buffer); "
        other += "sys.stdout.buffer.write(pickle.dumps(f(*args)))"
        def run(function, *args):
            given = cloudpickle.dumps((function, args))
            done = subprocess.run([sys.executable, "-c", other], input=given, capture_output=True)
            return pickle.loads(done.stdout)
        check(run, CALLS)
    print("all right")
"""


@pytest.mark.parametrize("how", ["spawn", "fork", "joblib", "loky", "cloudpickle"])
def test_functions_of_a_script(how: str, tmp_path: Path) -> None:
    """By name where the other process has run the script, else with their code."""
    if how not in ("spawn", "fork"):
        pytest.importorskip(how, reason=f"not installed: pip install {how}")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert said("-W", "ignore", str(script), how) == "all right\n"


def test_what_is_not_found_is_said() -> None:
    """A module that is not there, a name that it has not, and a name of something else."""
    pickled = pickle.dumps(doubled)
    module = ModuleType("somewhere")
    module.__dict__["doubled"] = plain = fuser.fuse(lambda x: x)
    plain.__module__, plain.__qualname__ = "somewhere", "doubled"
    sys.modules["somewhere"] = module
    try:
        elsewhere = pickle.dumps(plain)
        assert pickle.loads(elsewhere) is plain
        del module.__dict__["doubled"]
        with pytest.raises(FunctionNotFoundError, match=r"somewhere has no doubled.*same version"):
            pickle.loads(elsewhere)
        module.__dict__["doubled"] = 5
        with pytest.raises(AttributeError, match="its type is int here"):
            pickle.loads(elsewhere)
    finally:
        del sys.modules["somewhere"]
    with pytest.raises(FunctionNotFoundError, match="somewhere cannot be imported here"):
        pickle.loads(elsewhere)
    assert pickle.loads(pickled) is doubled


def test_registered_modules_go_along() -> None:
    """Where cloudpickle was told that the other side has not got the module."""
    cloudpickle: Any = pytest.importorskip("cloudpickle")
    module = sys.modules[__name__]
    assert cloudpickle.loads(cloudpickle.dumps(doubled)) is doubled
    cloudpickle.register_pickle_by_value(module)
    try:
        made = cloudpickle.loads(cloudpickle.dumps(doubled))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert made is not doubled
    assert (made(X) == X * 2).all()
    assert made.__qualname__ == made.__wrapped__.__qualname__ == "doubled"


def test_copies() -> None:
    """A function is its own copy; one of an object's own belongs to that object's copy."""
    alone = fuser.fuse(lambda x: x)
    for each in (doubled, alone, Scaled.times):
        assert copy.copy(each) is copy.deepcopy(each) is each
    one = Scaled(2.0)
    other = copy.deepcopy(one)
    other.scale = 5.0
    assert (one.own(X) == X * 2).all()
    assert (other.own(X) == X * 5).all()
    assert (other.times(X) == X * 5).all()
    assert (pickle.loads(pickle.dumps(other)).own(X) == X * 5).all()
