"""Why two operations share a kernel or do not: the one vocabulary, for plans and candidates."""

from __future__ import annotations

from fuser.base.errors import REASONS

#: code -> what it means. The first block says that a pair is fused, the second that it is not.
#: A value that is stored between kernels has a code of the second block.
VERDICTS: dict[str, str] = {
    "inlined": "computed where it is used, in the same loops",
    "view": "a view: index arithmetic, nothing is copied",
    "same-loops": "one loop nest computes both and reads once what both need",
    "same-rows": "two loop nests run by turns on some rows: what lies between stays in the cache",
    # not fused
    "reduction-elsewhere": "a reduction that is used over other axes than those of its loops",
    "heavy-broadcast": "costly and broadcast: computed once instead of for each row",
    "costly-shared": "costly and needed by several kernels: stored once instead of computed again",
    "many-stages": "needed by many reductions one after another: stored, not computed for each",
    "many-views": "seen through many views: stored once instead of computed again",
    "scan-elsewhere": "results that run along an axis, used in loops that do not",
    "scattered": "written at computed places: before it is read all of them are",
    "gathered": "read at computed places: all of it is written first",
    "gathered-part": "read at computed places, and part of it is used: all places are checked",
    "joined": "joined, then used: the parts are written into one buffer first",
    "memory": "stored so that what it needs can be freed: less is held at once",
    "read-before": "written into an argument that is read until then: stored aside, then copied",
    "read-back": "written into an argument, and read from there instead of computed again",
    "unfused-mode": "unfused mode: one kernel an operation",
    "other-loops": "their loops differ in shape or in the axes that are reduced",
    "long-rows": "rows are longer than the cache: read for their results, then for their elements",
    "rows-across": "rows lie across each other in memory: each loop runs on all of them",
    "through-view": "what one writes the other reads through a view, so elements do not meet",
    "cycle": "a third kernel needs what one writes, and the other needs what that writes",
    "no-saving": "fusing would save no bytes",
    "too-many-operands": "together they would read and write more arrays than one loop nest may",
    "too-many-operations": "together they would compute more than one loop nest may",
    "too-far": "far apart: fusing would keep arrays alive in between",
}

#: Codes of pairs that are fused.
FUSED = ("inlined", "view", "same-loops", "same-rows")


def meaning(code: str) -> str:
    """The sentence of a code, of this vocabulary or of `errors.REASONS`, that of graph breaks.

    A code from elsewhere (a backend's own) is its own sentence.
    """
    return VERDICTS[code] if code in VERDICTS else REASONS[code][0] if code in REASONS else code
