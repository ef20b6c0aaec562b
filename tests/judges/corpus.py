"""Programs that once failed, as small as the fuzzer made them."""

from __future__ import annotations

#: name -> a module: `f`, and `calls`, which yields the arguments of one call after the other.
PROGRAMS: dict[str, str] = {
    "identity": """
def f(x):
    t = x[1:]
    return t, t

def calls():
    yield (array(1, "float64", (5,)),)
""",
    "read-only": """
def f(x):
    return x.imag

def calls():
    yield (array(1, "float64", (5,)),)
""",
    "x-is-y": """
def f(x, y):
    return x + 1 if x is y else x - 1

def calls():
    x = array(1, "float64", (5,))
    yield x, x
""",
    "changed-captures": """
W = array(1, "float64", (100000,))

def f(x):
    y = x + 1 if W[0] > 0 else x - 1
    return y * np.exp(W).sum(), W[:5] * x + np.exp(W[:5])

def calls():
    for _ in range(3):
        yield (array(1, "float64", (5,)),)
        W[...] = W[...] * -2
""",
    "lengths": """
def f(x):
    n = len(x)
    return x * (n % 4), (-1) ** n * x, x * (n & 6), x * ((n + 1) // 2 - n // 2), x + 10 // (n - 5)

def calls():
    for n in (6, 7, 8, 9, 10):
        for _ in range(4):
            yield (array(n, "float64", (n,)),)
""",
    "read-only-message": """
def f(x):
    x[:2] = 1

def calls():
    yield (array(1, "float64", (5,), "readonly"),)
""",
    "writes-before-read-only": """
def f(x, y):
    x += 1
    x[0] = 5
    y[1:] = x[1:] * 2
    x[:] = 0

def calls():
    for kind in ("C", "C", "readonly", "readonly"):
        yield array(1, "float64", (5,)), array(2, "float64", (5,), kind)
        yield array(1, "float64", (5,), kind), array(2, "float64", (5,))
""",
    "writes-before-exceptions": """
def f(x):
    x[1:] = x[:-1] + 2
    return x + x[:2]

def calls():
    yield (array(1, "float64", (5,)),)
""",
    "constant-results": """
def f(x, y):
    t = -np.ones((x.size, 3))
    np.sort(t * x, -1)
    return t

def calls():
    yield array(1, "float64", ()), 3
    yield array(1, "float64", ()), 3
""",
    "parts-of-scalars": """
def f(x):
    return np.sum(x).imag

def calls():
    yield (array(1, "int64", (5,)),)
""",
    "which-error": """
W = array(1, "int64", (3000,))

def f(x):
    W[:8][:2] -= x
    return x

def calls():
    yield (array(1, "float64", (16,)),)
""",
    "arguments-by-another-name": """
def f(x, o):
    x += 1
    return o.v + 1

def calls():
    x = array(1, "float64", (5,))
    yield x, SimpleNamespace(v=x)
""",
    "twice": """
def f(x):
    v = np.abs(x * 1j)
    x += 1
    return v

def calls():
    for _ in range(3):
        yield (array(1, "float64", (5,)),)
""",
    "a-call-that-one-path-needs": """
def f(x):
    t = x[x > 0]
    if 0 < np.mean(t) < 2:
        return x + 1
    return t

def calls():
    yield (np.array([1.0, -1.0, 0.5]),)
    yield (np.array([8.0, -1.0, 9.0]),)
    yield (np.array([1.0, -1.0, 0.5]),)
    yield (np.array([np.nan, -1.0, 9.0]),)
""",
    "parts-of-complex": """
def f(x):
    return ((x - 1j) * 2).imag

def calls():
    yield (array(1, "float64", (5,)),)
""",
}
