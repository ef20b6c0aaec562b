"""Which values are stored: everything else is computed where it is used.

The heuristics and their limits are all here. A value that several kernels need is computed again
by each of them, unless that costs more than to write it once and to read it back.

Costly values that loops over pairs would compute for each pair are stored first.
`(unit(a)[:, None] * unit(b)).sum(-1)` has a loop for each of a's rows and, within, for each of b's:
what belongs to a row of b is computed anew for every row of a. Nothing that such loops read is as
large as they are, so the work counts and not the bytes; a value of one side is small beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import heappop, heappush

from fuser.base import budget
from fuser.ir import costs
from fuser.ir.costs import is_costly
from fuser.ir.dims import Shape
from fuser.ir.graph import Graph, Node
from fuser.ir.views import Chain
from fuser.scheduling.loop_nests import RealiseError, Space, fit, is_leaf, operands_through


def costly_sides(graph: Graph) -> list[Node]:
    """Values, or views of them, with costly operations that loops over pairs would repeat.

    A value that is constant along the innermost axis is not among them: it is computed before the
    innermost loop. Cosine distances of 1024 x 1025 rows of 16 take 1.3 ms with two quotients for
    each pair, 0.4 without.

    Args:
        graph: rewritten and decomposed.
    """
    only_reduced, in_rows = _only_reduced(graph)
    whole: set[int] = set()
    costly: dict[int, bool] = {}
    found: dict[int, Node] = {}
    for node in graph.nodes:
        if _has_own_elements(node, whole):
            whole.add(id(node))
        below = any(costly[id(arg)] for arg in node.args)
        costs = is_costly(node.op)
        costly[id(node)] = (costs or below) and not node.op.reduction
        if id(node) not in only_reduced:
            continue
        shows = node.op.structure and not node.op.repeats
        if id(node) in whole and (shows or id(node) not in in_rows):
            continue
        for arg in node.args:
            if costly[id(arg)] and repeats_rows(arg.shape, node.shape):
                found[id(arg)] = arg
                costly[id(arg)] = False
        if not costs and not any(costly[id(arg)] for arg in node.args):
            costly[id(node)] = False
    return list(found.values())


def repeats_rows(small: Shape, large: Shape) -> bool:
    """Whether broadcasting repeats whole rows, not elements within a row."""
    if not small or small[-1] == 1:
        return False
    lead = len(large) - len(small)
    if lead < 0:
        return False
    if any(length != 1 for length in large[:lead]):
        return True
    return any(one == 1 != other for one, other in zip(small, large[lead:], strict=True))


def _only_reduced(graph: Graph) -> tuple[set[int], set[int]]:
    """By `id`, values that nothing but reductions needs, perhaps after other operations.

    Then those of them that are reduced along their last axis: where an array is read for each
    element, loops over columns compute what is constant along them once.
    """
    users: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for arg in node.args:
            users.setdefault(id(arg), []).append(node)
    outputs = {id(node) for node in graph.outputs}
    found: set[int] = set()
    in_rows: set[int] = set()
    for node in reversed(graph.nodes):
        by = users.get(id(node), [])
        inside = all(user.op.reduction or id(user) in found for user in by)
        if by and inside and id(node) not in outputs and not node.op.joins:
            found.add(id(node))
            last = len(node.shape) - 1
            if all(last in u.payload.axes if u.op.reduction else id(u) in in_rows for u in by):
                in_rows.add(id(node))
    return found, in_rows


def _has_own_elements(node: Node, whole: Collection[int]) -> bool:
    """Whether a value reads something as large as itself, so that its bytes count."""
    if node.op.is_input or node.op.reduction or node.op.joins:
        return True
    if node.op.structure and not node.op.repeats:
        return any(id(arg) in whole for arg in node.args)
    return any(id(arg) in whole and arg.shape == node.shape for arg in node.args)


#: The limits are choices, measured on 2 cores (AMD EPYC, 32 MB of last cache), on float32, by
#: `fuser-bench tune --constant scheduling.inlining.NAME --value V … my_module:WORKLOAD`.

#: A value seen through views is computed anew for each different view, up to this many computed
#: elements of a graph, from its outputs backwards; beyond it what is seen through more than a few
#: is stored once and read back. Up to four levels of five points are one kernel with any limit (on
#: 3000 x 3000: 3, 7 and 15 ms). Five are one with this limit, 27 ms in 72 MB, and two with 256 and
#: less, 21 ms in 180 MB; six take 95, 86 and 62 ms in one, two and three nests on 4096 x 4096. So
#: less memory is paid for with time here; where many threads share the memory it is the other way
#: round. With a limit that grew with the graph, 700 operations on slices took 11.5 ms and 2.9 s to
#: compile, for 9.5 and 2.4.
RECOMPUTE_LIMIT, FEW_VIEWS = 512, 3
#: A value that several kernels need is stored when computing it reads more arrays than this, of as
#: many axes as it has: storing costs one write, and one read for each kernel instead of these. A
#: sum of three arrays that rows and columns need takes 0.24 ms computed twice and 1.0 ms stored on
#: 1024 x 1024, one of eight arrays 1.25 ms either way, in 67 and in 46 MB.
REALISE_READS = 4
#: ... or when computing it weighs more than this, in light operations. A value of 44 that rows and
#: columns need takes 0.9 ms stored and 1.5 ms computed twice on 1024 x 1024; 17 and 29 ms on
#: 4096 x 4096, in 268 and in 134 MB.
REALISE_WEIGHT = 40
#: Both are for a value that is computed twice: see `pays_to_store`.
#: Reductions one after another in one nest compute its elements again for each; beyond so much
#: work in light operations, with so many reductions, the elements are stored. Sixty-four
#: normalisations of 60 elements take 0.07 of NumPy's speed without it.
STAGE_WEIGHT, FEWEST_STAGES = 160, 4
#: Joins of joins are written part by part into the last of them, up to this many parts, each of
#: which is text; beyond it the inner ones are stored. `z = concatenate([z, z])` twelve times takes
#: 55 s to compile without a limit.
MOST_PARTS = 64
#: Reductions of one loop nest that a value is known to need: a bound for sums of thousands of them.
MOST_ROOTS = 16


def stored_values(graph: Graph, mode: str) -> dict[int, str]:
    """Values that are stored whatever the groups will be: a code of `verdicts` by `id(node)`.

    Args:
        graph: rewritten and decomposed.
        mode: "fused" or "unfused".
    """
    reasons = _gathered(graph)
    reasons.update((id(node), "scattered") for node in graph.nodes if node.op.scatters)
    if mode == "unfused":
        for node in graph.nodes:
            if computes(node) and not _cast_inside(node):
                reasons[id(node)] = "unfused-mode"
        return reasons | _joined_inside(graph)
    reasons.update(_broadcast_heavy(graph))
    if graph.reduces:
        sides = map(through_views, costly_sides(graph))
        reasons.update((id(node), "heavy-broadcast") for node in sides)
    reasons.update(_joined_inside(graph))
    reasons.update(_many_views(graph, reasons))
    if graph.reduces:
        reasons.update(_many_stages(graph, reasons))
        reasons.update(_reduced_elsewhere(graph, reasons))
    return reasons


def stored_early(graph: Graph, stored: dict[int, str]) -> dict[int, str]:
    """Values that need more than one stored value, and reductions: where memory is short.

    Args:
        graph: as for `stored_values`.
        stored: what is stored anyway.
    """
    found: dict[int, str] = {}
    behind: dict[int, frozenset[int]] = {}
    for node in graph.nodes:
        below: frozenset[int] = frozenset()
        for arg in node.args:
            kept = id(arg) in stored or id(arg) in found
            below |= frozenset([id(arg)]) if kept else behind[id(arg)]
        behind[id(node)] = below
        if computes(node) and id(node) not in stored and (node.op.reduction or len(below) > 1):
            found[id(node)] = "memory"
            behind[id(node)] = frozenset()
    return found


def computes(node: Node) -> bool:
    """Whether a node does elementwise work or reduces."""
    return not node.op.structure


def pays_to_store(amount: int, limit: int, times: int) -> bool:
    """Whether a value is better stored once than computed by each of several loop nests.

    What it takes is paid `times - 1` times less; the store, with the read of what it overwrites,
    and the reads by each nest cost like `times + 2` arrays.

    Args:
        amount: what it takes: arrays that it reads, a transposed one twice, or light operations.
        limit: the most of it that a value may take that is computed twice.
        times: loop nests that compute it.
    """
    return 4 * amount * (times - 1) > limit * (times + 2)


def is_as_wide(read: Node, value: Node) -> bool:
    """Whether an array that a value reads has as many axes: reading one row of it costs little."""
    return sum(dim != 1 for dim in read.shape) >= sum(dim != 1 for dim in value.shape)


def _cast_inside(node: Node) -> bool:
    """A conversion of an operand belongs to the operation that wants it, as in NumPy."""
    return node.op.converts and not node.payload.order


def through_views(node: Node) -> Node:
    """The value behind views."""
    while node.op.structure and not node.op.joins and node.args:
        node = node.args[0]
    return node


# -- broadcasting ---------------------------------------------------------------------------


def _broadcast_heavy(graph: Graph) -> dict[int, str]:
    """Values with costly operations that broadcasting would repeat: compute them once.

    A value that is constant along the innermost axis is hoisted out of the inner loop by the
    code generator, so only values that lack leading axes, or have ones there, count. What views
    repeat is a few elements' neighbours: there only heavy operations cost more than a store.
    """
    cost: dict[int, int] = {}
    found: dict[int, str] = {}
    after: set[int] = set()  # values that belong to a reduction's loops
    users: dict[int, list[Node]] = {id(node): [node] for node in graph.outputs}
    apart: dict[int, bool] = {}
    for node in graph.nodes:
        for arg in {id(a): a for a in node.args}.values():
            users.setdefault(id(arg), []).append(node)
    for node in graph.nodes:
        if node.op.reduction or any(id(arg) in after for arg in node.args):
            after.add(id(node))
            cost[id(node)] = costs.LIGHT
            continue
        below = max((cost[id(arg)] for arg in node.args), default=costs.LIGHT)
        own = min(costs.time_of(node.op), costs.HEAVY)
        cost[id(node)] = max(own, below) if not node.op.is_input else costs.LIGHT
        for arg in node.args:
            least = costs.HEAVY if node.op.structure else costs.ROOT
            if cost[id(arg)] < least or not arg.shape or arg.shape == node.shape:
                continue
            repeated = repeats_rows(arg.shape, node.shape) or node.op.repeats
            if node.op.joins or node.op.scatters:
                repeated = False  # each part is computed once
            elif node.op.structure and not node.op.repeats:
                if id(arg) not in apart:
                    apart[id(arg)] = _apart(users[id(arg)])
                repeated = not apart[id(arg)]
            if repeated:
                found[id(through_views(arg))] = "heavy-broadcast"
                cost[id(arg)] = costs.LIGHT
        if id(node) in found:
            cost[id(node)] = costs.LIGHT
    return found


def _apart(users: Sequence[Node]) -> bool:
    """Whether no two users of a value need the same element of it."""
    if len(users) == 1:
        return True
    if any(not user.op.indexes for user in users):
        return False
    budget.spend("steps", len(users) ** 2 // 16)
    seen = [user.payload.entries for user in users]
    return all(_disjoint(one, two) for k, one in enumerate(seen) for two in seen[:k])


def _disjoint(one: Sequence[slice | int | None], two: Sequence[slice | int | None]) -> bool:
    """Whether two indices surely show no element in common."""
    for left, right in zip(one, two, strict=False):
        if type(left) is int and type(right) is int:
            if left != right and (left < 0) == (right < 0):
                return True
        elif isinstance(left, slice) and isinstance(right, slice):
            steps = left.step or 1, right.step or 1
            if steps == (1, 1):
                ends = ((left.stop, right.start), (right.stop, left.start))
                if any(stop is not None and stop == start for stop, start in ends):
                    return True
            elif steps[0] == steps[1] > 1:
                starts = left.start or 0, right.start or 0
                if min(starts) >= 0 and (starts[0] - starts[1]) % steps[0]:
                    return True
    return False


def _gathered(graph: Graph) -> dict[int, str]:
    """What is read at computed places: any element may be needed at any time."""
    tables = (through_views(node.args[-1]) for node in graph.nodes if node.op.gathers)
    return {id(table): "gathered" for table in tables if table.args}


# -- joining --------------------------------------------------------------------------------


def _joined_inside(graph: Graph) -> dict[int, str]:
    """Concatenations that something else reads are stored; the last ones write into outputs."""
    inside: dict[int, str] = {}
    parts: dict[int, int] = {}
    for node in graph.nodes:
        for arg in node.args:
            if arg.op.joins and not node.op.joins:
                inside[id(arg)] = "joined"
        if node.op.joins:
            nested = [arg for arg in node.args if id(arg) in parts]
            count = len(node.args) + sum(parts[id(arg)] - 1 for arg in nested)
            if nested and count > MOST_PARTS:
                inside.update((id(arg), "joined") for arg in nested)
                count = len(node.args)
            parts[id(node)] = count
    for node in graph.outputs:
        source = through_views(node)
        if source.op.joins and source is not node:
            inside[id(source)] = "joined"
    return inside


# -- views ----------------------------------------------------------------------------------


def _many_views(graph: Graph, stored: dict[int, str]) -> dict[int, str]:
    """Values that would be computed for too many different views.

    From the outputs backwards, each value is met through the views of all that need it. A value
    that would take the computed elements over the limit is stored, and what it needs starts anew.
    """
    found: dict[int, str] = {}
    met: dict[int, dict[Chain, None]] = {id(node): {(): None} for node in graph.outputs}
    computed = 0
    for node in reversed(graph.nodes):
        chains = met.pop(id(node), {(): None})
        if not node.args:
            continue
        if id(node) in stored:
            chains = {(): None}
        elif computes(node) and computed + len(chains) > RECOMPUTE_LIMIT:
            if len(chains) > FEW_VIEWS:
                found[id(node)] = "many-views"
                chains = {(): None}
        computed += len(chains) if computes(node) else 0
        budget.spend("steps", len(chains))
        for arg, chain in _met_through(node, chains):
            met.setdefault(id(arg), {})[chain] = None
    return found


def _met_through(node: Node, chains: dict[Chain, None]) -> Iterator[tuple[Node, Chain]]:
    """Each operand with each chain of views that it is met through."""
    if node.op.reduction or node.op.joins or node.op.scatters:
        for arg in node.args:
            yield arg, ()
        return
    for views in chains:
        yield from operands_through(node, views)


# -- reductions -----------------------------------------------------------------------------


def _many_stages(graph: Graph, stored: dict[int, str]) -> dict[int, str]:
    """Values that a long row of reductions, each of which needs the one before, computes anew.

    One nest runs through its elements once for each of them, and computes the elements again from
    what it loads: k normalisations one after another take k * k operations. Where these are more
    than `STAGE_WEIGHT`, what the next reduction needs is stored, and the rest starts from it.
    """
    heavy = sum(1 << k for k, node in enumerate(graph.nodes) if node.op.heavy)
    uses: dict[int, int] = {}
    for node in graph.nodes:
        for arg in node.args:
            uses[id(arg)] = uses.get(id(arg), 0) + 1
    found: dict[int, str] = {}
    covers: dict[int, int] = {}  # by `id`: what one element is computed of, as bits
    behind: dict[int, int] = {}  # the reductions behind a value, as bits
    spent: dict[int, int] = {}  # what computing the elements for a reduction weighs, by its bit
    for place, node in enumerate(graph.nodes):
        below = [arg for arg in node.args if id(arg) not in stored and id(arg) not in found]
        mine = reductions = 0
        for arg in below:
            mine |= covers[id(arg)]
            reductions |= behind[id(arg)]
        if node.op.reduction:
            weight = costs.planned_sum(mine, heavy)
            spent[place] = weight
            total = weight + sum(spent[k] for k in bits(reductions))
            if reductions.bit_count() >= FEWEST_STAGES and total > max(STAGE_WEIGHT, 4 * weight):
                source = _shared_source(node.args[0], uses)
                if computes(source) and not source.op.reduction:
                    found[id(source)] = "many-stages"
                    reductions = 0
            mine, reductions = 0, reductions | 1 << place
        elif computes(node):
            mine |= 1 << place
        covers[id(node)], behind[id(node)] = mine, reductions
    return found


def bits(mask: int) -> Iterator[int]:
    """The places of the ones in a mask."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _shared_source(node: Node, uses: dict[int, int]) -> Node:
    """The nearest value behind a reduction's operand that something else needs as well."""
    while uses.get(id(node), 0) == 1 and len(node.args) == 1 and not node.op.reduction:
        node = node.args[0]
    if uses.get(id(node), 0) == 1 and computes(node) and not node.op.reduction:
        shared = [a for a in node.args if uses.get(id(a), 0) > 1 and a.shape == node.shape]
        node = shared[0] if shared else node
    return through_views(node)


def _reduced_elsewhere(graph: Graph, given: dict[int, str]) -> dict[int, str]:
    """Reductions that are used in other loops than their own, or costly values that need them."""
    return _Elsewhere(graph, given).found


class _Elsewhere:
    """From the arguments on, the loops that each value would be computed in."""

    def __init__(self, graph: Graph, given: dict[int, str]) -> None:
        self.found: dict[int, str] = {}
        self.stored = dict(given)
        self.settled: set[int] = set()  # reductions of which what is computed is stored
        self.space: dict[int, Space | None] = {}
        self.roots: dict[int, tuple[Node, ...]] = {}
        self.uses: dict[int, int] = {}
        self.nodes = graph.nodes
        self.place = {id(node): place for place, node in enumerate(graph.nodes)}
        self.users: dict[int, list[Node]] = {id(node): [node] for node in graph.outputs}
        for node in graph.nodes:
            for arg in {id(a): a for a in node.args}.values():
                self.uses[id(arg)] = self.uses.get(id(arg), 0) + 1
                self.users.setdefault(id(arg), []).append(node)
        for node in graph.nodes:
            self.space[id(node)] = self._space(node)
            self.roots[id(node)] = self._roots(node)

    def _roots(self, node: Node) -> tuple[Node, ...]:
        """Reductions whose loops a value would be computed in: once they are stored, in none."""
        if node.op.reduction or self.space[id(node)] is None:
            return (node,) if node.op.reduction else ()
        below = [self.roots[id(arg)] for arg in node.args if self._of(arg) is not None]
        if all(one is below[0] for one in below):
            return below[0]
        return tuple({id(r): r for one in below for r in one}.values())[-MOST_ROOTS:]

    def _space(self, node: Node) -> Space | None:
        """The loops of a node's reductions; conflicts are cut."""
        if node.op.joins:
            return None
        if node.op.reduction:
            (arg,) = node.args
            own: Space = (arg.shape, node.payload.axes)
            if self._of(arg) not in (None, own):
                self._cut(arg)
            return own
        if node.op.scans or node.op.scatters:  # no loops that reduce
            for arg in node.args:
                if self._of(arg) is not None:
                    self._cut(arg)
            return None
        spaces = {self._of(arg): arg for arg in node.args}
        spaces.pop(None, None)
        if len(spaces) > 1:
            chosen = next((s for s in spaces if s and s[0] == node.shape), None)
            for space, arg in list(spaces.items()):
                if space != chosen and not (chosen is None and len(spaces) == 1):
                    self._cut(arg)
                    del spaces[space]
        if not spaces:
            return None
        ((space, arg),) = spaces.items()
        assert space is not None
        if not node.op.structure and fit(node.shape, space) is None:
            if not self._reshaped(node, space):
                self._cut(arg)
                return None
        return space

    def _of(self, node: Node) -> Space | None:
        """The loops that inlining a value takes with it."""
        space = None if id(node) in self.stored else self.space[id(node)]
        if space is None or node.op.reduction:
            return space
        alive = any(
            id(root) not in self.stored and id(root) not in self.settled
            for root in self.roots[id(node)]
        )
        return space if alive else None

    def _reshaped(self, node: Node, space: Space) -> bool:
        """Whether a value is computed in loops that split an axis of its shape."""
        from fuser.scheduling.loop_nests import space_of

        try:
            return space_of(node, self.stored)[0] == space
        except RealiseError:
            return False

    def _cut(self, node: Node) -> None:
        """Store something so that a value no longer takes reductions' loops with it."""
        source = through_views(node)
        reductions, weight, reads = self._behind(source)
        again = self.uses.get(id(source), 0) > 1 or source is not node
        if source.op.reduction or not reductions:
            self._store(source, "reduction-elsewhere")
        elif again and (weight > REALISE_WEIGHT or reads > REALISE_READS):
            self._store(source, "costly-shared")
        else:
            for reduction in reductions:
                self._store(self._after(reduction), "reduction-elsewhere")
                self.settled.add(id(reduction))

    def _after(self, reduction: Node) -> Node:
        """The last of the values of a reduction's shape that are computed of it, one by one.

        Where nothing but that one is needed elsewhere, it is as good to store: an epilogue of the
        reduction computes it once, and broadcasting does not repeat it. Else the reduction itself.
        """
        within: dict[int, Node] = {}
        waiting = [self.place[id(reduction)]] if reduction.shape else []
        while waiting:
            node = self.nodes[heappop(waiting)]
            alone = all(id(arg) in within or self.space.get(id(arg)) is None for arg in node.args)
            alike = node.op.is_elementwise and node.shape == reduction.shape and alone
            alike = alike and node.dtype.itemsize <= reduction.dtype.itemsize
            if id(node) in within or not (alike or node is reduction):
                continue
            within[id(node)] = node
            for user in self.users.get(id(node), ()):
                heappush(waiting, self.place[id(user)])
        left = [node for node in within.values()
                if any(id(user) not in within or user is node for user in self.users[id(node)])]
        return left[0] if len(left) == 1 else reduction

    def _store(self, node: Node, reason: str) -> None:
        """Store a value."""
        self.found[id(node)] = self.stored[id(node)] = reason

    def _behind(self, node: Node) -> tuple[list[Node], int, int]:
        """The reductions that a value needs, its weight, and how many arrays it reads."""
        reductions: list[Node] = []
        weight, reads = 0, 0
        seen = {id(node)}
        stack = [node]
        while stack:
            current = stack.pop()
            if current.op.is_input or (id(current) in self.stored and current is not node):
                reads += is_as_wide(current, node)
                continue
            if current.op.reduction and current is not node:
                reductions.append(current)
                continue
            weight += costs.planned(current.op)
            for arg in reversed(current.args):
                if id(arg) not in seen and not is_leaf(arg):
                    seen.add(id(arg))
                    stack.append(arg)
        return reductions, weight, reads
