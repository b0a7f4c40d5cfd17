"""Results as data frames of pandas, which is an extra."""

__all__ = ["DataFrame", "frame_of"]

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedfloor.errors import MissingExtraError

if TYPE_CHECKING:
    from pandas import DataFrame
else:
    DataFrame = Any  # pandas is loaded when a frame is made


def frame_of(columns: Mapping[str, Sequence[object]]) -> DataFrame:
    """A data frame of columns of equal length."""
    try:
        import pandas  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("to_pandas()", "notebook") from error
    return pandas.DataFrame(dict(columns))
