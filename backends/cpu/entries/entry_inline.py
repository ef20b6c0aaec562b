"""Functions of the dispatcher's text pasted where they are called: no optimiser does it for us.

A function that begins with `define inline` is no function of the finished text. Where it is
called its lines stand instead, with names of their own; what it returns comes together in a phi.
"""

from __future__ import annotations

import itertools
import re

from fuser.base.records import record

_HEAD = re.compile(r"define (?P<how>[\w ]*?)(?P<kind>\w+) @(?P<name>\w+)\((?P<given>.*)\) \{")
_CALL = re.compile(
    r"\s*(?:(?P<result>%[\w.]+) = )?call (?P<kind>\w+) @(?P<name>\w+)\((?P<given>.*)\)"
)
_RETURN = re.compile(r"\s*ret (?:void|(?P<kind>\w+) (?P<value>\S+))$")
_NAME = re.compile(r"%[A-Za-z_][\w.]*")
_LABEL = re.compile(r"([A-Za-z_][\w.]*):$")


@record
class _Function:
    """One function: its first line, parameters, lines between the braces."""

    head: str
    inline: bool
    parameters: tuple[str, ...]
    lines: tuple[str, ...]


def paste(text: str) -> str:
    """The text without its inline functions; they stand where they were called.

    Args:
        text: LLVM IR, or short forms of it; every inline function begins with a label.
    """
    functions, rest = _parse(_joined(text))
    inline = {name: function for name, function in functions.items() if function.inline}
    numbers = itertools.count()
    finished = list(rest)
    for function in functions.values():
        if not function.inline:
            finished += [function.head, *_expanded(function.lines, inline, numbers), "}", ""]
    return "\n".join(finished)


def _joined(text: str) -> list[str]:
    """Lines, with those that go on inside of brackets as one."""
    lines: list[str] = []
    open_brackets = 0
    for line in text.splitlines():
        if open_brackets:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
        open_brackets += sum(line.count(c) for c in "([") - sum(line.count(c) for c in ")]")
    return lines


def _parse(lines: list[str]) -> tuple[dict[str, _Function], list[str]]:
    """Functions by name, and the lines outside of them."""
    functions: dict[str, _Function] = {}
    rest: list[str] = []
    stream = iter(lines)
    for line in stream:
        found = _HEAD.match(line)
        if found is None:
            rest.append(line)
            continue
        body = tuple(itertools.takewhile(lambda inner: inner != "}", stream))
        given = tuple(part.split()[-1] for part in found["given"].split(",") if part.strip())
        inline = "inline" in found["how"].split()
        functions[found["name"]] = _Function(line, inline, given, body)
    return functions, rest


def _expanded(
    lines: tuple[str, ...], inline: dict[str, _Function], numbers: itertools.count[int]
) -> list[str]:
    """Lines with calls of inline functions replaced by their bodies."""
    finished: list[str] = []
    block = ""
    moved: dict[str, str] = {}
    for line in lines:
        if label := _LABEL.match(line):
            block = label[1]
        call = _CALL.match(line)
        if call is None or call["name"] not in inline:
            finished.append(line)
            continue
        function, prefix = inline[call["name"]], f"{call['name']}{next(numbers)}."
        body, returned = _renamed(function, prefix, call["given"], inline, numbers)
        finished += [f"  br label %{prefix}entry", *body, f"{prefix}returned:"]
        if call["result"]:
            pairs = ", ".join(f"[ {value}, %{place} ]" for value, place in returned)
            finished.append(f"  {call['result']} = phi {call['kind']} {pairs}")
        moved[block] = f"{prefix}returned"
    if moved:  # what came from such a block comes from the end of what was pasted into it
        ends = re.compile(r", %([\w.]+) \]")
        finished = [
            ends.sub(lambda m: f", %{moved.get(m[1], m[1])} ]", line) if " phi " in line else line
            for line in finished
        ]
    return finished


def _renamed(
    function: _Function,
    prefix: str,
    given: str,
    inline: dict[str, _Function],
    numbers: itertools.count[int],
) -> tuple[list[str], list[tuple[str, str]]]:
    """A body under other names, and what it returns from where."""
    values = [part.split()[-1] for part in given.split(",") if part.strip()]
    known = dict(zip(function.parameters, values, strict=True))
    body: list[str] = []
    returned: list[tuple[str, str]] = []
    block = ""

    def name(found: re.Match[str]) -> str:
        return known.get(found[0], f"%{prefix}{found[0][1:]}")

    for raw in _expanded(function.lines, inline, numbers):
        label = _LABEL.match(raw)
        line = f"{prefix}{raw}" if label else _NAME.sub(name, raw)
        block = line[:-1] if label else block
        if ending := _RETURN.match(line):
            if ending["value"]:
                returned.append((ending["value"], block))
            line = f"  br label %{prefix}returned"
        body.append(line)
    return body, returned
