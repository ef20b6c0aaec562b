"""A worker whose fuser is that of another checkout: `python other_checkout.py DIR WORKER…`.

The fuser and its backends come from the folder DIR, whatever its files are called; this checkout
measures them, with its own suites and reports, by the public names alone. Nothing of this checkout
is imported before the other one's `fuser` is.
"""

import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

HERE = Path(__file__).resolve().parent
OURS = {"suites": HERE, "reports": HERE.parent / "reports"}
"""The packages that stay this checkout's, by where they are: beside each other in a wheel, too."""


def use(checkout: str) -> None:
    """Make `import fuser` mean that of a checkout, with this one's suites and reports in it."""
    sys.path.insert(0, checkout)
    import fuser
    import fuser.backends

    if Path(fuser.__file__).parents[1] != Path(checkout):  # one that is installed
        raise ImportError(f"no fuser in {checkout}")
    for name, folder in OURS.items():
        spec = spec_from_file_location(
            f"fuser.{name}", folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None  # a folder of Python files has one
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        setattr(fuser, name, module)
        spec.loader.exec_module(module)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose files are no modules of their own
    use(sys.argv[1])
    sys.argv = sys.argv[1:]
    runpy.run_module("fuser.suites.worker", run_name="__main__", alter_sys=True)
