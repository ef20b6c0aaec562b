"""Numbers as a person reads them, wherever they stand: pages, figures, terminals."""

from collections.abc import Mapping


def seconds_text(seconds: float) -> str:
    """Spell a time in the unit that fits: `0.12 µs`, `1.6 ms`, `2.3 s`."""
    return _in_unit(seconds, {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9})


def bytes_text(size: float) -> str:
    """Spell a size in binary units: `48 KiB`, `192 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1000:
            return f"{_three(size)} {unit}"
        size /= 1024
    return f"{_three(size)} TiB"


def count_text(count: float) -> str:
    """Spell a number of elements briefly: `64`, `4.1 k`, `16.8 M`."""
    return _in_unit(count, {"G": 1e9, "M": 1e6, "k": 1e3, "": 1}).rstrip()


def ratio_text(ratio: float) -> str:
    """Spell a ratio with three digits: `1.00x`, `12.2x`, `154x`, with a multiplication sign."""
    digits = 0 if ratio >= 99.95 else 1 if ratio >= 9.995 else 2
    return f"{ratio:,.{digits}f}\N{MULTIPLICATION SIGN}"


def percent_text(share: float) -> str:
    """Spell a share: `0.84%`, `1.2%`, `130%`."""
    percent = 100 * share
    return f"{percent:.2g}%" if percent < 10 else f"{percent:,.0f}%"


def rate_text(bytes_per_second: float) -> str:
    """Spell a rate in decimal units: `28.1 GB/s`, `56 kB/s`."""
    return _in_unit(bytes_per_second, {"GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1})


def _in_unit(value: float, units: Mapping[str, float]) -> str:
    """Three digits in the first unit, the largest being first, of which it is 1 or more."""
    fitting = (unit for unit, scale in units.items() if value >= scale * 0.9995)
    unit = next(fitting, [*units][-1])
    return f"{_three(value / units[unit])} {unit}"


def _three(value: float) -> str:
    """Three digits, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2
    text = f"{value:.{digits}f}" if abs(value) >= 0.1 else f"{value:.2g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
