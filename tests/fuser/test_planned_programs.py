"""Normalisations, losses and steps as users write them: kernels and bytes by hand, results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.passes.test_concatenated_reductions import book_of
from tests.quick_code import quick_kernels

__all__ = ["quick_kernels"]

R, D, N, H, W = 40, 33, 6, 8, 9


def instance_norm(x: Any, gain: Any, bias: Any) -> Any:
    """Of images."""
    mean, var = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * gain[:, None, None] + bias[:, None, None]


def rms_norm_of_sum(x: Any, before: Any, gain: Any) -> Any:
    """With the sum, which the next layer adds to."""
    h = x + before
    return h / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-6) * gain, h


def gated_rms_norm(x: Any, z: Any, gain: Any) -> Any:
    """As state-space models have it."""
    h = x * (z / (1 + np.exp(-z)))
    return h / np.sqrt(np.mean(h**2, axis=-1, keepdims=True) + 1e-6) * (1 + gain)


def weight_norm(v: Any, gain: Any) -> Any:
    """A length for each row."""
    return gain[:, None] * v / np.linalg.norm(v, axis=1, keepdims=True)


def spectral_step(w: Any, u: Any) -> Any:
    """One power iteration."""
    v = (w * u[:, None]).sum(0)
    return v / np.sqrt((v * v).sum() + 1e-12)


def spectral_scale(w: Any, u: Any, v: Any) -> Any:
    """By the estimate of the largest singular value."""
    return w / (u[:, None] * w * v).sum()


def whitened(x: Any) -> Any:
    """Each column by itself."""
    return (x - x.mean(0)) / (x.std(0) + 1e-8)


def tempered(x: Any, mask: Any) -> Any:
    """A softmax of what is not masked."""
    z = np.where(mask > 0, x / 0.7, -1e9)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def focal(x: Any, t: Any) -> Any:
    """The loss of detectors."""
    p = 1 / (1 + np.exp(-x))
    entropy = np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))
    return (0.25 * (1 - p * t - (1 - p) * (1 - t)) ** 2 * entropy).mean()


def kl(a: Any, b: Any) -> Any:
    """Of two sets of logits."""
    a, b = a - a.max(-1, keepdims=True), b - b.max(-1, keepdims=True)
    a = a - np.log(np.exp(a).sum(-1, keepdims=True))
    b = b - np.log(np.exp(b).sum(-1, keepdims=True))
    return (np.exp(a) * (a - b)).sum(-1).mean()


def huber(p: Any, t: Any) -> Any:
    """In all."""
    d = np.abs(p - t)
    return np.where(d < 1, 0.5 * d * d, d - 0.5).sum()


def huber_reductions(p: Any, t: Any) -> Any:
    """Of rows, in all, and the gradient."""
    d = p - t
    low = np.minimum(np.abs(d), 1)
    loss = low * (np.abs(d) - 0.5 * low)
    return loss.mean(1), np.clip(d, -1, 1) / d.shape[1], loss.sum()


def entropy(x: Any) -> Any:
    """Of a softmax of each row."""
    top = x.max(1, keepdims=True)
    e = np.exp(x - top)
    total = e.sum(1)
    return np.log(total) - ((x - top) * e).sum(1) / total


def log_mean_exp(x: Any) -> Any:
    """Without overflow."""
    top = x.max(-1, keepdims=True)
    return (top + np.log(np.mean(np.exp(x - top), -1, keepdims=True)))[:, 0]


def gumbel(x: Any, u: Any) -> Any:
    """A sample that has gradients."""
    z = (x - np.log(-np.log(u))) / 0.5
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sparsemax(x: Any) -> Any:
    """By Newton's steps."""
    low = x.max(1, keepdims=True) - 1
    for _ in range(6):
        p = np.maximum(x - low, 0)
        low = low + (p.sum(1, keepdims=True) - 1) / (x > low).sum(1, keepdims=True)
    return np.maximum(x - low, 0)


def layer_norm_backward(x: Any, dy: Any, gain: Any) -> Any:
    """All three gradients."""
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    scale = 1 / np.sqrt(var + 1e-5)
    normal, dx = (x - mean) * scale, dy * gain
    inner = (dx * normal).mean(-1, keepdims=True)
    dx = scale * (dx - dx.mean(-1, keepdims=True) - normal * inner)
    return dx, (dy * normal).sum(0), dy.sum(0)


def batch_norm_backward(x: Any, dy: Any, gain: Any) -> Any:
    """Over the batch."""
    scale = 1 / np.sqrt(x.var(0) + 1e-5)
    normal = (x - x.mean(0)) * scale
    bias, slope = dy.sum(0), (dy * normal).sum(0)
    return gain * scale * (dy - bias / len(x) - normal * slope / len(x)), slope, bias


def batch_norm_train(x: Any, gain: Any, bias: Any, mean: Any, var: Any) -> Any:
    """With running statistics."""
    m, v = x.mean(0), x.var(0)
    y = (x - m) / np.sqrt(v + 1e-5) * gain + bias
    return y, 0.9 * mean + 0.1 * m, 0.9 * var + 0.1 * v


def clipped(a: Any) -> Any:
    """By its norm."""
    return a * np.minimum(1, 1 / (np.linalg.norm(a) + 1e-6))


def clipped_by_common_norm(a: Any, b: Any) -> Any:
    """Both are read for the norm, then again."""
    scale = np.minimum(1, 1 / (np.sqrt((a * a).sum() + (b * b).sum()) + 1e-6))
    return a * scale, b * scale


def sinkhorn(x: Any) -> Any:
    """Rows, then columns: the array is read for the rows' sums, then by columns."""
    x = x / x.sum(1, keepdims=True)
    return x / x.sum(0)


def sinkhorn_twice(x: Any) -> Any:
    """Each sum but the last reads the array once more."""
    return sinkhorn(sinkhorn(x))


def triplet(a: Any, p: Any, n: Any) -> Any:
    """What is alike shall be nearer."""
    return np.maximum(((a - p) ** 2).sum(1) - ((a - n) ** 2).sum(1) + 0.2, 0).mean()


def pearson(a: Any, b: Any) -> Any:
    """Of two long vectors."""
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def moments(x: Any) -> Any:
    """Skewness and kurtosis of columns."""
    d = x - x.mean(0)
    s = (d * d).mean(0)
    return (d**3).mean(0) / s**1.5, (d**4).mean(0) / s**2 - 3


def image_batch_norm_train(x: Any, gain: Any, bias: Any, mean: Any, var: Any) -> Any:
    """Each channel of images, with running statistics, with axes put behind the channels alone."""
    m, v, n = x.mean((0, 2, 3)), x.var((0, 2, 3)), x.size / x.shape[1]
    y = (x - m[:, None, None]) / np.sqrt(v[:, None, None] + 1e-5) * gain[:, None, None]
    return y + bias[:, None, None], 0.9 * mean + 0.1 * m, 0.9 * var + 0.1 * v * n / (n - 1)


Program = tuple[Callable[..., Any], list[tuple[int, ...]], int, int]
#: function, shapes, kernels, elements moved: arguments and results once, unless said otherwise.
PROGRAMS: list[Program] = [
    (instance_norm, [(N, 5, H, W), (5,), (5,)], 1, 2 * N * 5 * H * W + 10),
    (rms_norm_of_sum, [(R, D), (R, D), (D,)], 1, 4 * R * D + D),
    (gated_rms_norm, [(R, D), (R, D), (D,)], 1, 3 * R * D + D),
    (weight_norm, [(R, D), (R,)], 1, 2 * R * D + R),
    (spectral_step, [(R, D), (R,)], 1, R * D + R + D),
    (spectral_scale, [(R, D), (R,), (D,)], 1, 2 * R * D + R + D),
    (whitened, [(R, D)], 1, 2 * R * D),
    (tempered, [(R, D), (R, D)], 1, 3 * R * D),
    (focal, [(R, D), (R, D)], 1, 2 * R * D + 1),
    (kl, [(R, D), (R, D)], 1, 2 * R * D + 1),
    (huber, [(R, D), (R, D)], 1, 2 * R * D + 1),
    # the sum of all elements reads both arrays once more
    (huber_reductions, [(R, D), (R, D)], 1, 5 * R * D + R + 1),
    (entropy, [(R, D)], 1, R * D + R),
    (log_mean_exp, [(R, D)], 1, R * D + R),
    (gumbel, [(R, D), (R, D)], 1, 3 * R * D),
    (sparsemax, [(R, D)], 1, 2 * R * D),
    # sums of columns read both arrays once more, and two numbers of each row, which are written
    (layer_norm_backward, [(R, D), (R, D), (D,)], 2, 5 * R * D + 3 * D + 2 * 2 * R),
    (batch_norm_backward, [(R, D), (R, D), (D,)], 1, 3 * R * D + 3 * D),
    (batch_norm_train, [(R, D), (D,), (D,), (D,), (D,)], 1, 2 * R * D + 6 * D),
    (
        image_batch_norm_train,
        [(N, 5, H, W), (5,), (5,), (5,), (5,)],
        1,
        2 * N * 5 * H * W + 6 * 5,
    ),
    (clipped, [(R, D)], 1, 2 * R * D),
    # both sums are written, and read for each array
    (clipped_by_common_norm, [(R, D), (W, H)], 2, 3 * R * D + 3 * W * H + 2 * (1 + 2)),
    # sums of rows are written and read
    (sinkhorn, [(R, D)], 2, 3 * R * D + 2 * R),
    # two sums of rows and one of columns are written, and read by each loop after them
    (sinkhorn_twice, [(R, D)], 4, 5 * R * D + R + 3 * R + D + 2 * D + R + R),
    (triplet, [(R, D), (R, D), (R, D)], 1, 3 * R * D + 1),
    (pearson, [(R * D,), (R * D,)], 1, 2 * R * D + 1),
    (moments, [(R, D)], 1, R * D + 2 * D),
]
NAMES = [program[0].__name__ for program in PROGRAMS]


def arguments(shapes: list[tuple[int, ...]], dtype: str, seed: int) -> list[Any]:
    """Random numbers between 0 and 1."""
    random = np.random.default_rng(seed)
    return [(random.random(shape) * 0.9 + 0.05).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_planned_bytes_are_the_hand_count(program: Program) -> None:
    """Exactly, and in as many kernels."""
    function, shapes, kernels, moved = program
    book = book_of(function, *arguments(shapes, "float64", 0))
    assert (book.kernels_fused, book.planned_bytes) == (kernels, 8 * moved)


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results(program: Program, dtype: str) -> None:
    """NumPy's, of any layout, by Python and natively; NaN and infinities spread as there."""
    function, shapes, _, _ = program
    fused = fuser.fuse(function, fallback="error")
    for seed in range(5):
        args = arguments(shapes, dtype, seed)
        if seed == 1:
            args = [np.repeat(arg, 2, axis=-1)[..., ::2] for arg in args]
        if seed == 2:
            args = [np.asfortranarray(arg) for arg in args]
        if seed == 3:
            args = [np.ascontiguousarray(arg[::-1])[::-1] for arg in args]
        if seed == 4:
            args[0].flat[args[0].size // 2] = np.nan
            args[0].flat[-1] = np.inf
        with np.errstate(all="ignore"):
            wanted = function(*args)
        wanted = wanted if type(wanted) is tuple else (wanted,)
        for _ in range(2):
            found = fused(*args)
            found = found if type(found) is tuple else (found,)
            for one, other in zip(found, wanted, strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                loose = 1e-9 if dtype == "float64" else 2e-3
                np.testing.assert_allclose(one, other, rtol=loose, atol=loose)
