"""One step of an optimiser over one flat parameter array: several inputs, several outputs."""

from typing import Any

import numpy as np

from fuser.suites.workload import Array, Workload, drawn, given, magnitudes, normal, normals

FAMILY = "optimiser step"
LEARNING_RATE = 0.001


def sgd_momentum(parameters: Array, gradient: Array, velocity: Array) -> Any:
    """Polyak's heavy ball (USSR Comp. Math. and Math. Phys. 4(5), 1964)."""
    velocity = 0.9 * velocity + gradient
    return parameters - LEARNING_RATE * velocity, velocity


def adam_step(parameters: Array, gradient: Array, mean: Array, square: Array) -> Any:
    """Kingma and Ba, "Adam", arXiv:1412.6980, algorithm 1, at step 10."""
    mean = 0.9 * mean + (1 - 0.9) * gradient
    square = 0.999 * square + (1 - 0.999) * gradient * gradient
    unbiased_mean = mean / (1 - 0.9**10)
    unbiased_square = square / (1 - 0.999**10)
    step = LEARNING_RATE * unbiased_mean / (np.sqrt(unbiased_square) + 1e-8)
    return parameters - step, mean, square


def adagrad_step(parameters: Array, gradient: Array, total: Array) -> Any:
    """Duchi, Hazan and Singer, "Adaptive subgradient methods", JMLR 12, 2011."""
    total = total + gradient * gradient
    return parameters - LEARNING_RATE * gradient / (np.sqrt(total) + 1e-8), total


def lion_step(parameters: Array, gradient: Array, momentum: Array) -> Any:
    """Chen et al., arXiv:2302.06675, with weight decay 0.1: only the sign of the step counts."""
    direction = np.sign(0.9 * momentum + (1 - 0.9) * gradient)
    parameters = parameters - LEARNING_RATE * (direction + 0.1 * parameters)
    return parameters, 0.99 * momentum + (1 - 0.99) * gradient


_adam_inputs = given(*[drawn(normal)] * 3, magnitudes)
_adagrad_inputs = given(*[drawn(normal)] * 2, magnitudes)


WORKLOADS = (
    Workload(
        "sgd_momentum", FAMILY, "gradient descent with momentum: two outputs", sgd_momentum,
        normals(3),
    ),
    Workload(
        "adagrad_step", FAMILY, "one step of Adagrad: two outputs", adagrad_step,
        _adagrad_inputs, tolerance_eps=32,
    ),
    Workload("lion_step", FAMILY, "one step of Lion: two outputs", lion_step, normals(3)),
    Workload(
        "adam_step", FAMILY, "one step of Adam: three outputs", adam_step, _adam_inputs,
        quick=True, tolerance_eps=32,
    ),
)
