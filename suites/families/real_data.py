"""Real images and terrain: the sample data that come with matplotlib, tiled to any size."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuser.suites.workload import HEAVY_SIZES, Arguments, Array, Workload

FAMILY = "real data"
ELEVATION = "jacksboro_fault_dem.npz"
PHOTOGRAPH = "grace_hopper.jpg"


def hill_shading(elevation: Array) -> Any:
    """Horn, "Hill shading and the reflectance map", Proc. IEEE 69(1), 1981.

    Light from the north-west at 45 degrees, central differences on a grid of 75 m by 93 m.
    """
    # the model's grid is 1/1200 of a degree: 93 m to the north, 75 m to the east at 36.6 degrees
    east = (elevation[1:-1, 2:] - elevation[1:-1, :-2]) * (1 / 150)
    north = (elevation[:-2, 1:-1] - elevation[2:, 1:-1]) * (1 / 186)
    lit = (0.5 * east - 0.5 * north + 0.7071067811865476) / np.sqrt(1 + east * east + north * north)
    return np.clip(lit, 0, 1)


def _linear_light(channel: Array) -> Any:
    """IEC 61966-2-1 (sRGB): from stored value to linear light."""
    curved = ((channel + 0.055) * (1 / 1.055)) ** 2.4
    return np.where(channel <= 0.04045, channel * (1 / 12.92), curved)


def tone_mapping(red: Array, green: Array, blue: Array) -> Any:
    """Reinhard et al., "Photographic tone reproduction", ACM TOG 21(3), 2002, equation 4.

    On linear light, with the luminance weights of ITU-R BT.709; two stops up, white at 4.
    """
    red, green, blue = (4.0 * _linear_light(channel) for channel in (red, green, blue))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    scale = (1 + luminance * (1 / 16)) / (1 + luminance)
    return red * scale, green * scale, blue * scale


def colour_conversion(red: Array, green: Array, blue: Array) -> Any:
    """RGB to YCbCr as in JFIF (ITU-T T.871), on values from 0 to 255."""
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    blueness = (blue - luma) * (0.5 / (1 - 0.114)) + 128
    redness = (red - luma) * (0.5 / (1 - 0.299)) + 128
    return luma, blueness, redness


def _data_folder() -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path()) / "sample_data"


def _unavailable() -> str | None:
    """Return why the sample data cannot be read, or None."""
    try:
        folder = _data_folder()
        import PIL.Image  # noqa: F401  (needed to read the photograph)
    except ImportError as error:
        return f"{error}: pip install matplotlib"
    missing = [name for name in (ELEVATION, PHOTOGRAPH) if not (folder / name).is_file()]
    return f"matplotlib's sample data lack {', '.join(missing)}" if missing else None


@cache
def _elevation() -> Array:
    with np.load(_data_folder() / ELEVATION) as archive:
        return np.asarray(archive["elevation"], dtype=np.float32)


@cache
def _photograph() -> Array:
    """Return the photograph as three planes of values from 0 to 255."""
    from PIL import Image

    with Image.open(_data_folder() / PHOTOGRAPH) as image:
        pixels = np.asarray(image.convert("RGB"))
    return np.ascontiguousarray(np.moveaxis(pixels, -1, 0))


def tiled(plane: Array, elements: int) -> Array:
    """Return about `elements` elements of a plane, mirrored at its edges as often as it takes."""
    wanted = max(9, elements)
    columns = max(3, min(wanted // 3, round((wanted * plane.shape[1] / plane.shape[0]) ** 0.5)))
    rows = max(3, wanted // columns)
    row_index, column_index = (
        _mirror(length, limit) for length, limit in zip((rows, columns), plane.shape, strict=True)
    )
    pieces: Array = plane[np.ix_(row_index, column_index)]
    return pieces


def _mirror(length: int, limit: int) -> Array:
    """Return indices 0, 1 .. limit-1, limit-1 .. 1, 0, 0, 1 .. of the given length."""
    position = np.arange(length) % (2 * limit)
    return np.minimum(position, 2 * limit - 1 - position)


def _repeats(plane: Array, elements: int) -> str:
    return f"{max(elements, 9) / plane.size:.2g} times over"


def _terrain(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
    # a new seed shifts the terrain: other values at every place, the same statistics
    plane = np.roll(_elevation(), int(generator.integers(1, 300)), axis=1)
    return (tiled(plane, elements).astype(dtype),)


def _channels(scale: float) -> Any:
    """Return a maker of the photograph's red, green and blue planes, times `scale`."""

    def make(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
        shift = int(generator.integers(1, 500))
        planes = np.roll(_photograph(), shift, axis=2)
        return tuple((tiled(plane, elements) * np.float64(scale)).astype(dtype) for plane in planes)

    return make


def _elevation_note(elements: int) -> str:
    return (
        f"Elevation model {ELEVATION} (344 x 403) of matplotlib's sample data, mirrored and "
        f"tiled {_repeats(_elevation(), elements)}, its slopes scaled by a fixed grid."
    )


def _photograph_note(elements: int) -> str:
    return (
        f"Photograph {PHOTOGRAPH} (600 x 512) of matplotlib's sample data, mirrored and tiled "
        f"{_repeats(_photograph()[0], elements)}, as three planes."
    )


WORKLOADS = (
    Workload(
        "hill_shading", FAMILY, "shaded relief of an elevation model", hill_shading, _terrain,
        quick=True, synthetic=False, tolerance_eps=32, note=_elevation_note,
        unavailable=_unavailable,
    ),
    Workload(
        "tone_mapping", FAMILY, "tone mapping of a photograph", tone_mapping,
        _channels(1 / 255), sizes=HEAVY_SIZES, synthetic=False, tolerance_eps=64,
        note=_photograph_note, unavailable=_unavailable,
    ),
    Workload(
        "colour_conversion", FAMILY, "RGB to YCbCr of a photograph", colour_conversion,
        _channels(1.0), synthetic=False, note=_photograph_note, unavailable=_unavailable,
    ),
)
