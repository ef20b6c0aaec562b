"""Python numbers that a loop leaves: known only when the loop has run, so nothing hangs on them."""

from __future__ import annotations

from typing import Any

from fuser.base.errors import Unsupported
from fuser.ir.graph import Node

#: Kinds of such numbers, as element loops name them.
KINDS = {"pyint": int, "pyfloat": float, "pybool": bool}


class LateNumber:
    """In the place of a Python number that a loop leaves: it can be returned, or enter a loop."""

    __slots__ = ("kind", "node")

    def __init__(self, node: Node, kind: str) -> None:
        """Keep the value without axes that holds it, and its kind."""
        self.node, self.kind = node, kind

    def __getattr__(self, name: str) -> Any:
        """Refused."""
        raise refusal(self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused."""
        raise refusal(self)


def refusal(number: LateNumber) -> Unsupported:
    """Why such a number cannot be used."""
    found = (
        f"a Python {KINDS[number.kind].__name__} that a loop over elements leaves is known only "
        "when the loop has run; return it, and compute with it outside"
    )
    return Unsupported("control-flow", "loop", found)


def _refused(self: LateNumber, *args: Any, **kwargs: Any) -> Any:
    """Refused."""
    raise refusal(self)


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow lshift "
    "rshift rlshift rrshift and rand or ror xor rxor neg pos abs invert lt le gt ge eq ne bool "
    "int float index complex hash round floor ceil trunc format divmod rdivmod array_ufunc "
    "array_function"
).split():
    setattr(LateNumber, f"__{_name}__", _refused)
