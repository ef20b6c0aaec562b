"""Series, DataFrames and DataArrays: what the library gives, by kernels where that is NumPy's."""

from typing import Any

import numpy as np
import pytest

import fuser

pd = pytest.importorskip("pandas", reason="not installed: pip install pandas")

X = np.random.default_rng(1).random(7)
X[3] = np.nan
INDEX = list("abcdefg")
SERIES = pd.Series(X, index=INDEX, name="q")
OTHER = pd.Series(X + 1, index=INDEX, name="r")
SHIFTED = pd.Series(X, index=list("bcdefgh"))
FRAME = pd.DataFrame({"a": X, "b": X + 1}, index=INDEX)
MIXED = pd.DataFrame({"a": X, "b": range(7)})
WHOLE = pd.Series([3, 0, -2], name="n")
MISSING = pd.Series([1, None, 3], dtype="Int64")

FUSED: dict[str, Any] = {
    "elementwise": lambda x: np.exp(x) * 2 + 1,
    "comparison": lambda x: (x > 0.5) & (x < 0.9),
    "several results": lambda x: (x + 1, {"a": -x}),
    "clip": lambda x: np.clip(x, 0.2, 0.5),
    "astype": lambda x: x.astype("float32") * 2,
}
LEFT: dict[str, Any] = {
    "mean": lambda x: (x - x.mean()) / x.std(),
    "where": lambda x: np.where(x > 0.5, x, 0),
    "slices": lambda x: x[1:] - x[:-1],
    "the argument": lambda x: x,
    "a method": lambda x: x.rank() * 2,
    "to_numpy": lambda x: x.to_numpy() * 2,
}


def same(found: Any, wanted: Any) -> None:
    """Compare class, labels, names, attrs, dtype and values."""
    assert type(found) is type(wanted)
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, dict):
        same(tuple(found.values()), tuple(wanted.values()))
    elif isinstance(wanted, pd.Series):
        pd.testing.assert_series_equal(found, wanted)
        assert found.attrs == wanted.attrs
    elif isinstance(wanted, pd.DataFrame):
        pd.testing.assert_frame_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("given", [SERIES, FRAME], ids=["Series", "DataFrame"])
@pytest.mark.parametrize("name", FUSED)
def test_elementwise_functions_are_fused(name: str, given: Any) -> None:
    """And give what the library gives, at the first call and at later ones."""
    fused = fuser.fuse(FUSED[name], fallback="error")
    for _ in range(3):
        same(fused(given), FUSED[name](given))


@pytest.mark.parametrize("given", [SERIES, FRAME], ids=["Series", "DataFrame"])
@pytest.mark.parametrize("name", LEFT)
def test_what_labels_take_part_in_is_left_to_the_library(name: str, given: Any) -> None:
    """With a reason."""
    fused = fuser.fuse(LEFT[name], fallback="allow")
    try:
        wanted = LEFT[name](given)
    except Exception as error:  # noqa: BLE001 - what it raises is raised
        with pytest.raises(type(error)):
            fused(given)
        return
    for _ in range(2):
        same(fused(given), wanted)
    assert len(fused.fallbacks) == 1


@pytest.mark.parametrize("given", [MIXED, MISSING], ids=["mixed", "missing"])
def test_values_that_are_no_one_array(given: Any) -> None:
    """Columns of several dtypes, and arrays of pandas' own."""
    fused = fuser.fuse(FUSED["elementwise"], fallback="allow")
    same(fused(given), FUSED["elementwise"](given))
    assert fused.fallbacks[0].code == "labelled-array"
    assert "to_numpy" in str(fused.fallbacks[0])
    assert str(fused.fallbacks[0]).startswith("x: ")


def test_several_arguments() -> None:
    """Equal labels are fused; others are aligned, by the library."""
    def function(x: Any, y: Any, k: float) -> Any:
        return np.exp(x) * y + k

    fused = fuser.fuse(function, fallback="allow")
    same(fused(SERIES, OTHER, 2.0), function(SERIES, OTHER, 2.0))
    same(fused(SERIES, SERIES, 2.0), function(SERIES, SERIES, 2.0))
    assert fused.fallbacks == []
    same(fused(SERIES, SHIFTED, 2.0), function(SERIES, SHIFTED, 2.0))
    same(fused(SERIES, X, 2.0), function(SERIES, X, 2.0))
    assert {reason.code for reason in fused.fallbacks} == {"labelled-array"}


def test_names_and_attributes_are_kept() -> None:
    """As the library keeps them, whatever was called before."""
    fused = fuser.fuse(lambda x, y: x * 2 + y, fallback="error")
    marked = SERIES.copy()
    marked.attrs["unit"] = "m"
    for x, y in ((SERIES, SERIES), (SERIES, OTHER), (marked, marked), (OTHER, OTHER), (marked, 1)):
        same(fused(x, y), x * 2 + y)
    for attributes in ({}, {"unit": "m"}):
        frame = SERIES.to_frame()
        frame.attrs.update(attributes)
        same(fused(frame, 1), frame * 2 + 1)


@pytest.mark.parametrize(
    "function", [lambda x: x // 2 * 0 + 7 // x, lambda x: 7 % x, lambda x: x / x, lambda x: x**2]
)
def test_integers(function: Any) -> None:
    """Division by zero is what the library makes of it."""
    fused = fuser.fuse(function, fallback="allow")
    same(fused(WHOLE), function(WHOLE))


def test_out_is_numpys() -> None:
    """The values are copied into an array that is given."""
    out = np.zeros(7)
    fuser.fuse(FUSED["elementwise"], fallback="allow")(SERIES, out=out)
    np.testing.assert_allclose(out, np.exp(X) * 2 + 1)


def test_data_arrays() -> None:
    """Dimensions, coordinates and name are kept."""
    xr = pytest.importorskip("xarray", reason="not installed: pip install xarray")
    given = xr.DataArray(
        X[:6].reshape(2, 3), dims=("t", "c"), coords={"c": list("abc")}, name="q",
        attrs={"unit": "m"},
    )  # fmt: skip
    fused = fuser.fuse(FUSED["elementwise"], fallback="error")
    wanted = FUSED["elementwise"](given)
    found = fused(given)
    xr.testing.assert_allclose(found, wanted)
    assert (found.dims, found.name, found.attrs) == (wanted.dims, wanted.name, wanted.attrs)
    left = fuser.fuse(LEFT["mean"], fallback="allow")
    xr.testing.assert_allclose(left(given), LEFT["mean"](given))
    assert left.fallbacks[0].code == "labelled-array"


def test_data_arrays_of_dask() -> None:
    """Values stay lazy, and are kernels on chunks; labels are put on."""
    xr = pytest.importorskip("xarray", reason="not installed: pip install xarray")
    da = pytest.importorskip("dask.array", reason="not installed: pip install dask")
    values = np.random.default_rng(6).random((20, 6))
    array = xr.DataArray(values, dims=("t", "p"), coords={"t": np.arange(20)}, name="n")
    fused = fuser.fuse(lambda x: np.exp(x) * 2 + 1, fallback="allow")
    found = fused(array.chunk({"t": 7}))
    assert isinstance(found.data, da.Array)
    assert found.chunks == ((7, 7, 6), (6,))
    xr.testing.assert_allclose(found, np.exp(array) * 2 + 1)
    assert found.name == (np.exp(array) * 2 + 1).name
    assert fused.fallbacks == []
    means = fuser.fuse(lambda x: x - x.mean(), fallback="allow")
    xr.testing.assert_allclose(means(array.chunk({"t": 7})), array - array.mean())
    assert means.fallbacks[0].code == "labelled-array"


def test_data_sets() -> None:
    """Of several arrays: xarray runs the function, and the reason says so."""
    xr = pytest.importorskip("xarray", reason="not installed: pip install xarray")
    data = xr.Dataset({"u": ("t", np.arange(4.0)), "v": ("t", np.ones(4))})
    fused = fuser.fuse(lambda x: x * 2 + 1, fallback="allow")
    xr.testing.assert_identical(fused(data), data * 2 + 1)
    assert fused.fallbacks[0].code == "labelled-array"
    assert "several arrays" in str(fused.fallbacks[0])
