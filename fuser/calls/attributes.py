"""Functions that assign attributes of their arguments: optimisers and filters written as classes.

`self.m = 0.9 * self.m + 0.1 * g` changes the world outside of the graph. Where such an attribute
is a plain one and holds an array or a number, the function is a pure one of what the attribute
holds: it is handed in, comes out beside the results, and is assigned after the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base import trees
from fuser.base.call_keys import changed_argument, leaf_names
from fuser.base.errors import Reason, ShapeError, Unsupported
from fuser.base.protocols import is_a, namespace_of, type_has
from fuser.base.records import record
from fuser.calls.importlib_bootstrap_frame import Plainly
from fuser.calls.running import copied_into
from fuser.calls.specialisation import FRAME_NS, is_brief
from fuser.capture.captures import ABSENT, names_in, stored_attributes
from fuser.tracing.traced_array import TracedArray
from fuser.tracing.traced_scalars import HostScalar

if TYPE_CHECKING:
    from fuser.calls.owner import Owner

#: Sets of objects that one function remembers.
FRAMES_LIMIT = 64
#: Reasons for which a trace fails that writes into an array which it does not know of.
_SUSPICIOUS = ("array-conversion", "write-into-constant", "side-effect")
_PLAIN = frozenset([np.ndarray, float, int, bool, np.float64, np.float32])
#: An object, and the name of one of its attributes.
Attribute = tuple[Any, str]


class NotTracedError(Exception):
    """A call by stand-ins was asked for without any: the function itself has to be run."""


class MoreAttributesError(Exception):
    """The function assigns further attributes, which were not known of."""

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        """Keep what was assigned."""
        super().__init__()
        self.attributes = tuple(attributes)


@record(eq=False, slots=False)
class Frame:
    """A function of attributes' values: what is fused in place of the function.

    Attributes:
        fused: called with the values of `inputs`, then with the other arguments.
        inputs: attributes that are handed in.
        outputs: attributes that are assigned.
        absent: those of them that are not there before.
        places: which of the call's arguments are handed on, by their place.
        fixed: the other arguments, with their places.
        count: how many arguments there are, where they are positional and none nests; else -1.
    """

    fused: Any
    inputs: tuple[Attribute, ...]
    outputs: tuple[Attribute, ...]
    absent: tuple[Attribute, ...]
    places: tuple[int, ...]
    fixed: tuple[tuple[int, Any], ...]
    count: int

    def values(self, leaves: Sequence[Any]) -> list[Any] | None:
        """What the fused function is called with; None where attributes have changed in kind."""
        found = [vars(thing).get(name, ABSENT) for thing, name in self.inputs]
        found += [leaves[place] for place in self.places]
        for value in found[: len(self.inputs)]:
            if type(value) not in _PLAIN and not _is_value(value):
                return None
        for thing, name in self.absent:
            if name in vars(thing):
                return None
        return found

    def values_of(self, args: tuple[Any, ...]) -> list[Any] | None:
        """The same, for plain positional arguments; None for any others."""
        if len(args) != self.count:
            return None
        for place, thing in self.fixed:
            if args[place] is not thing:
                return None
        found = self.values(args)
        if found is None:
            return None
        for value in found:
            if type(value) not in _PLAIN:
                return None
        return found

    def assign(self, values: Sequence[Any]) -> None:
        """Give the attributes what the function gave them."""
        for (thing, name), value in zip(self.outputs, values, strict=True):
            thing.__dict__[name] = value


@record(eq=False)
class Hidden:
    """What a frame's function knows of the objects that it stands for.

    Attributes:
        things: the objects.
        handed_in: attributes that are arguments, by the identity of the namespace and the name.
    """

    things: tuple[Any, ...]
    handed_in: frozenset[tuple[int, str]]


def suspected(owner: Owner, leaves: Sequence[Any], reason: Reason) -> list[Attribute]:
    """Attributes because of which a trace may have failed: assigned, or written into in place.

    An array that an attribute holds is NumPy's own while it is no argument: nothing traced can be
    written into it.
    """
    if reason.code not in _SUSPICIOUS:
        return []
    function = owner.__wrapped__
    assigned, named = stored_attributes(function), names_in(function)
    return [
        (thing, name)
        for thing in _objects(owner, leaves)
        for name, value in _namespace(thing).items()
        if _is_plain(thing, name)
        and (name in assigned or (type(value) is np.ndarray and name in named))
    ]


class Frames:
    """The frames of one function, by the objects among its arguments."""

    def __init__(self) -> None:
        """Know nothing."""
        self._attributes: dict[Any, tuple[Attribute, ...]] = {}
        self._frames: dict[Any, Frame] = {}
        self._latest: Frame | None = None

    def __bool__(self) -> bool:
        """Whether the function is known to assign attributes."""
        return bool(self._attributes)

    def latest(self, args: tuple[Any, ...]) -> tuple[Frame, list[Any]] | None:
        """The frame of the last call, if it is that of this one, too."""
        frame = self._latest
        values = None if frame is None else frame.values_of(args)
        return None if frame is None or values is None else (frame, values)

    def find(
        self, owner: Owner, structure: Any, leaves: Sequence[Any]
    ) -> tuple[Frame, list[Any]] | None:
        """The frame of a call, and what its function is called with; None: it has none."""
        key = tuple(map(id, _objects(owner, leaves)))
        attributes = self._attributes.get(key)
        if not attributes or any(map(_is_traced, _all_values(attributes))):
            return None
        present = tuple(name in vars(thing) for thing, name in attributes)
        floats = _floats(owner.__wrapped__, attributes)
        full = (trees.spell(structure), key, present, tuple(name for _, name in floats))
        frame = self._frames.get(full)
        if frame is None:
            if len(self._frames) >= FRAMES_LIMIT:
                self._frames = {}
            frame = self._frames[full] = _make(owner, structure, leaves, attributes, floats)
        self._latest = frame
        values = frame.values(leaves)
        return None if values is None else (frame, values)

    def gives_way(self, frame: Frame, values: Sequence[Any]) -> bool:
        """Whether NumPy takes less than a frame, by estimate, or has to run what a frame cannot.

        Args:
            frame: what was run.
            values: what it has just run on.
        """
        known = frame.fused.known_for(*trees.flatten((tuple(values), {})))
        calls = [specialisation.match(values) for specialisation in known]
        if known and not any(call is not None and is_brief(call, FRAME_NS) for call in calls):
            return False
        self._latest = None
        return True

    def note(
        self, owner: Owner, leaves: Sequence[Any], attributes: Iterable[Attribute]
    ) -> bool:
        """Note attributes that a function assigns; whether they can be handed in."""
        objects = _objects(owner, leaves)
        key = tuple(map(id, objects))
        known = {(id(thing), name): (thing, name) for thing, name in self._attributes.get(key, ())}
        before = len(known)
        for thing, name in attributes:
            if not any(thing is each for each in objects) or not _is_plain(thing, name):
                return False
            known[id(thing), name] = (thing, name)
        if len(known) == before:
            return False
        if len(self._attributes) >= FRAMES_LIMIT:
            self._attributes = {}
        self._attributes[key] = tuple(known.values())
        return True


def _objects(owner: Owner, leaves: Sequence[Any]) -> list[Any]:
    """The objects among a call's arguments, and the one whose method is called."""
    found = [leaf for leaf in leaves if not _is_value(leaf)]
    method = owner.__wrapped__
    return [method.__self__, *found] if type(method) is MethodType else found


def _namespace(thing: Any) -> dict[str, Any]:
    """The attributes that Python itself keeps for an object."""
    found = namespace_of(thing)
    return found if type(found) is dict else {}


def _is_value(value: Any) -> bool:
    """Whether an attribute's value can be an argument."""
    if value is None or type(value) in (bool, int, float, np.ndarray):
        return True
    return is_a(value, np.generic) or type_has(value, "__cuda_array_interface__")


def _is_traced(value: Any) -> bool:
    """Whether a value is a stand-in."""
    return issubclass(type(value), (TracedArray, HostScalar))


def _all_values(attributes: Iterable[Attribute]) -> list[Any]:
    """What attributes hold, those that are there."""
    return [vars(thing).get(name) for thing, name in attributes]


def _is_plain(thing: Any, name: str) -> bool:
    """Whether an attribute is an entry of the object's namespace and nothing else."""
    kind: Any = type(thing)
    if is_a(thing, (type, ModuleType)) or type(namespace_of(thing)) is not dict:
        return False
    if kind.__setattr__ is not object.__setattr__:
        return False
    if kind.__getattribute__ is not object.__getattribute__:
        return False
    found = inspect.getattr_static(kind, name, None)
    return not hasattr(type(found), "__set__") and _is_value(vars(thing).get(name))


def _floats(function: Callable[..., Any], attributes: Iterable[Attribute]) -> list[Attribute]:
    """Numbers and arrays beside the assigned attributes that the code names: learning rates …"""
    named = names_in(function)
    assigned = {(id(thing), name) for thing, name in attributes}
    things = {id(thing): thing for thing, _ in attributes}.values()
    return [
        (thing, name)
        for thing in things
        for name, value in vars(thing).items()
        if type(value) in (float, np.ndarray) and name in named
        and (id(thing), name) not in assigned and _is_plain(thing, name)
    ]  # fmt: skip


def _make(
    owner: Owner,
    structure: Any,
    leaves: Sequence[Any],
    attributes: Sequence[Attribute],
    floats: Sequence[Attribute],
) -> Frame:
    """The pure function, fused as its owner is."""
    things = tuple({id(thing): thing for thing, _ in attributes}.values())
    inputs = (*(each for each in attributes if each[1] in vars(each[0])), *floats)
    places = tuple(
        place for place, leaf in enumerate(leaves) if not any(leaf is thing for thing in things)
    )
    shown = [None if place in places else leaf for place, leaf in enumerate(leaves)]
    names = leaf_names(owner.__wrapped__, structure)
    pure = _pure(owner.__wrapped__, structure, shown, places, inputs, tuple(attributes))
    known = {id(leaf): name for leaf, name in zip(leaves, names, strict=True)}
    known |= {id(thing): "self" for thing in things if id(thing) not in known}
    pure.__dict__["__argument_names__"] = (
        *(f"{known[id(thing)]}.{name}" for thing, name in inputs),
        *(names[place] for place in places),
    )
    kind: Any = type(owner)
    fused = kind(
        pure, backend=owner.backend, mode=owner.mode, fallback=owner.fallback,
        fastmath=owner.fastmath, errstate=owner.errstate,
    )  # fmt: skip
    fused.fallbacks = owner.fallbacks
    handed_in = frozenset((id(vars(thing)), name) for thing, name in (*attributes, *inputs))
    pure.__dict__["__objects__"] = things
    fused._hidden = Hidden(things, handed_in)
    flat = structure == (tuple(map(trees.Leaf, range(len(leaves)))), {})
    fixed = tuple((place, leaf) for place, leaf in enumerate(leaves) if place not in places)
    absent = tuple(each for each in attributes if each[1] not in vars(each[0]))
    count = len(leaves) if flat else -1
    return Frame(fused, inputs, tuple(attributes), absent, places, fixed, count)


class _Plan:
    """How a function without side effects stands for one that assigns attributes of its arguments.

    Attributes come in as further arguments, and what is assigned goes out as further results.
    """

    __slots__ = ("inputs", "leaves", "outputs", "places", "structure")

    def __init__(
        self, structure: Any, leaves: list[Any], places: tuple[int, ...],
        inputs: tuple[Attribute, ...], outputs: tuple[Attribute, ...],
    ) -> None:  # fmt: skip
        self.structure = structure
        self.leaves = leaves
        self.places = places
        self.inputs = inputs
        self.outputs = outputs

    def _assigns(self, attribute: Attribute) -> bool:
        """Whether an attribute is one of those that are assigned."""
        thing, name = attribute
        return any(thing is each and name == other for each, other in self.outputs)

    def call(self, function: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        """Call the function by stand-ins, and collect what it assigned."""
        if not any(map(_is_traced, values)):
            raise NotTracedError
        for (thing, name), value in zip(self.inputs, values, strict=False):
            thing.__dict__[name] = value
        leaves = list(self.leaves)
        for place, value in zip(self.places, values[len(self.inputs) :], strict=True):
            leaves[place] = value
        args, kwargs = trees.unflatten(self.structure, leaves)
        result = function(*args, **kwargs)
        changed = changed_argument(function, self.structure, (args, kwargs), leaves)
        given = zip(self.inputs, values, strict=False)
        more = [each for each, value in given
                if vars(each[0]).get(each[1], ABSENT) is not value and not self._assigns(each)]
        if more:
            raise _assigning(more)
        kept = {id(thing) for _, thing in trees.changeable((args, kwargs))}
        if any(id(thing) in kept for _, thing in trees.changeable(result)):
            changed = "a list or a dict that it returns"
        found = [vars(thing).get(name, ABSENT) for thing, name in self.outputs]
        gone = [name for (_, name), value in zip(self.outputs, found, strict=True)
                if value is ABSENT]  # fmt: skip
        if changed is not None or gone:
            name = str(getattr(function, "__name__", "function"))
            raise Unsupported("side-effect", name, changed or f"{gone[0]} is not there any more")
        return result, tuple(found)


def _assigning(attributes: list[Attribute]) -> Unsupported:
    """The reason that a function assigns attributes; in no variable of the frame that raises it."""
    error = Unsupported("side-effect", attributes[0][1], "it is assigned", "")
    error.attributes = tuple(attributes)
    return error


def _pure(
    function: Callable[..., Any],
    structure: Any,
    leaves: list[Any],
    places: tuple[int, ...],
    inputs: tuple[Attribute, ...],
    outputs: tuple[Attribute, ...],
) -> Callable[..., Any]:
    """A function of attributes' values and other arguments, that gives what it would assign."""
    attributes = _Plan(structure, leaves, places, inputs, outputs)

    def pure(*values: Any) -> Any:
        return attributes.call(function, values)

    pure.__name__ = str(getattr(function, "__name__", "function"))
    pure.__qualname__ = str(getattr(function, "__qualname__", pure.__name__))
    pure.__module__ = str(getattr(function, "__module__", ""))  # whose globals are looked at
    return pure


# -- calls ----------------------------------------------------------------------------------


def frame_for(
    owner: Owner, error: Exception, structure: Any, leaves: Sequence[Any]
) -> tuple[Frame, list[Any]] | None:
    """What is run instead, where a function cannot be fused because it assigns attributes.

    Raises:
        MoreAttributesError: this is what is run instead, and it assigns further attributes.
    """
    attributes = getattr(error, "attributes", ())
    if owner._hidden is not None:
        if attributes:
            raise MoreAttributesError(attributes)
        return None
    if not attributes and isinstance(error, Unsupported):
        attributes = suspected(owner, leaves, error.reason)
    if not attributes:
        return None
    frames = owner._frames = owner._frames or Frames()
    if not frames.note(owner, leaves, attributes):
        return None
    return frames.find(owner, structure, leaves)


def run_frame(
    owner: Owner, frame: Frame, values: list[Any], args: tuple[Any, ...], kwargs: Any,
    out: Any,
) -> Any:  # fmt: skip
    """Run the function of attributes' values, and assign what it gave for them; or a `Plainly`.

    An exception is the plain function's, whose assignments before it remain.
    """
    again = None
    try:
        result, assigned = frame.fused(*values)
    except MoreAttributesError as error:
        structure, leaves = trees.flatten((args, kwargs))
        if owner._frames.note(owner, leaves, error.attributes):
            frames: Frames = owner._frames
            again = frames.find(owner, structure, leaves)
    except (NotTracedError, ShapeError, OverflowError):
        pass
    else:
        frame.assign(assigned)
        return result if out is None else copied_into(out, result)
    if again is not None:
        return run_frame(owner, *again, args, kwargs, out)
    return Plainly(owner.__wrapped__, None if out is None else partial(copied_into, out))
