"""The cells of a score table as arrays: scores, outcomes, times and words, refused by row where they cannot be read.

>>> import pyarrow as pa
>>> where = Where("today.csv", 0)
>>> outcomes(pa.chunked_array([["yes", "0", ""]]), "correct", where)[0].tolist()
[True, False, False]
>>> float(seconds(pa.chunked_array([["1970-01-01T00:01:00+00:00"]]), "time", where)[0])
60.0
>>> scores(pa.chunked_array([[0.5, float("inf")]]), "knn", where)
Traceback (most recent call last):
roadworthy.data.samples.DataError: today.csv, row 2: knn is inf; a score must be finite, so leave the cell empty where there is none
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.data.samples import DataError
from roadworthy.data.score_columns import ColumnError
from roadworthy.data.score_forms import no_number

if TYPE_CHECKING:
    import pyarrow as pa

RIGHT = frozenset({"1", "1.0", "true", "t", "yes", "y", "right", "correct", "ok", "pass", "passed"})
WRONG = frozenset({"0", "0.0", "false", "f", "no", "n", "wrong", "incorrect", "fail", "failed"})
UNKNOWN = frozenset({"", "nan", "na", "n/a", "none", "null"})

LATEST = 1e11
"""Seconds, in the year 5138: a greater time is one in milliseconds, or in smaller parts yet."""
FIRST_WRITTEN, LAST_WRITTEN = 1.99e13, 2.1e13
"""Dates as one number, from 1990 to 2099: year, month, day, hour, minute and second without a mark between them."""
PARTS = (("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9))
"""Of a second, as clocks count them."""


class Part(NamedTuple):
    """What times are counted in, where it is not seconds."""

    name: str
    of_a_second: float


class Where(NamedTuple):
    """Which file, how many rows come before these, and on which line of the file a row stands, where it has lines."""

    file: str
    start: int
    line_of: Callable[[int], int | None] | None = None

    def row(self, index: int) -> str:
        """A row as people count them: the first after the column names is 1; with its line, for those who open the file.

        >>> Where("today.csv", 0).row(1), Where("today.csv", 0, lambda row: row + 1).row(1)
        ('today.csv, row 2', 'today.csv, row 2 (line 3)')
        """
        number = self.start + index + 1
        line = None if self.line_of is None else self.line_of(number)
        return f"{self.file}, row {number:,}" + ("" if line is None else f" (line {line:,})")


def scores(cells: pa.ChunkedArray, column: str, where: Where) -> np.ndarray:
    """Float64, NaN where a cell is empty; infinite scores are refused."""
    import pyarrow as pa

    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    try:
        values = np.asarray(
            _stripped(cells).cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64
        )
    except pa.ArrowInvalid:
        row, cell = _first_bad(cells)
        raise DataError(f"{where.row(row)}: {column} {no_number(str(cell))}") from None
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise DataError(
            f"{where.row(row)}: {column} is {values[row]}; a score must be finite, so leave the cell empty where there is none"
        )
    return values


def outcomes(cells: pa.ChunkedArray, column: str, where: Where) -> tuple[np.ndarray, np.ndarray]:
    """Which answers were right, and of which rows that is known."""
    dictionary = _encoded(cells)
    meaning = np.full(len(dictionary.values), -1)
    for at, value in enumerate(dictionary.values):
        word = str(value).strip().lower()
        known = 1 if word in RIGHT else 0 if word in WRONG else -1 if word in UNKNOWN else None
        if known is None:
            row = int(np.argmax(dictionary.at == at))
            raise ColumnError(
                f"{where.row(row)}: {column} is {value!r}; what is taken is 1, true, yes, right, correct, ok or pass, and 0, "
                "false, no, wrong, incorrect or fail",
                "choose another column with --correct COLUMN",
                "write one of these",
            )
        meaning[at] = known
    found = np.where(dictionary.at < 0, -1, meaning[dictionary.at] if len(meaning) else -1)
    return found == 1, found >= 0


def words(cells: pa.ChunkedArray) -> np.ndarray:
    """Text; an empty cell is an empty text."""
    dictionary = _encoded(cells)
    values = np.array(["" if v is None else str(v) for v in dictionary.values] + [""])
    return values[dictionary.at]


def ids(cells: pa.ChunkedArray) -> np.ndarray:
    """Names of events; empty text where a cell has none, also where it says so in words.

    >>> import pyarrow as pa
    >>> ids(pa.chunked_array([["a7", "", "nan", None]])).tolist()
    ['a7', '', '', '']
    """
    dictionary = _encoded(cells)
    read = ["" if v is None else str(v) for v in dictionary.values]
    values = np.array(["" if v.strip().lower() in UNKNOWN else v for v in read] + [""])
    return values[dictionary.at]


def seconds(
    cells: pa.ChunkedArray, column: str, where: Where, *, part: Part | None = None
) -> np.ndarray:
    """Numbers as they are, dates as seconds since 1970 (UTC where no zone is given), also written as one number, 20260302083000;
    NaN where a cell is empty.

    Numbers that would lie beyond the year 5138 are parts of a second: refused, unless it is said which.
    """
    import pyarrow as pa
    from pyarrow import types

    if (
        types.is_integer(cells.type)
        or types.is_floating(cells.type)
        or types.is_decimal(cells.type)
    ):
        return _counted(
            np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(), np.float64),
            column,
            where,
            part,
        )
    if types.is_timestamp(cells.type) or types.is_date(cells.type) or types.is_null(cells.type):
        return _since_1970(cells)
    if types.is_dictionary(cells.type):
        return seconds(cells.cast(cells.type.value_type), column, where, part=part)
    if not (types.is_string(cells.type) or types.is_large_string(cells.type)):
        return _no_times(cells, column, where)
    text = _stripped(cells)
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.float64()):
        try:
            read = text.cast(kind)
        except pa.ArrowInvalid:
            continue
        return (
            _counted(read.to_numpy(), column, where, part)
            if kind == pa.float64()
            else _since_1970(read)
        )
    return _one_by_one(text, column, where)


def part_of_a_second(cells: pa.ChunkedArray) -> Part | None:
    """What times beyond the year 5138 are counted in; None where they are dates, or seconds.

    >>> import pyarrow as pa
    >>> part_of_a_second(pa.chunked_array([[1772409600000]])).name, part_of_a_second(pa.chunked_array([[12.5]]))
    ('milliseconds', None)
    """
    try:
        seconds(cells, "", Where("", 0))
    except _Beyond as found:
        return found.part
    except DataError:  # told by its row when it is read
        return None
    return None


def without_zone(cells: pa.ChunkedArray) -> bool:
    """Whether times are dates of which one or more have no time zone, and so are taken for UTC.

    >>> import pyarrow as pa
    >>> [without_zone(pa.chunked_array([[t]])) for t in ("2026-03-02T08:30:00", "2026-03-02T08:30:00+01:00", "12.5")]
    [True, False, False]
    """
    import pyarrow as pa
    from pyarrow import types

    if types.is_timestamp(cells.type) or types.is_date(cells.type):
        return getattr(cells.type, "tz", None) is None
    if (
        types.is_integer(cells.type)
        or types.is_floating(cells.type)
        or types.is_decimal(cells.type)
    ):
        return (
            _written_out(np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(), np.float64))
            is not None
        )
    if not (types.is_string(cells.type) or types.is_large_string(cells.type)):
        return False
    text = _stripped(cells).drop_null()
    try:
        return _written_out(np.asarray(text.cast(pa.float64()).to_numpy(), np.float64)) is not None
    except pa.ArrowInvalid:
        pass
    try:
        text.cast(pa.timestamp("us", "UTC"))
        return False
    except pa.ArrowInvalid:  # some have none, or are written in another way
        return any(map(_lacks_zone, text.to_pylist()))


def _lacks_zone(text: str) -> bool:
    """Whether it is a date without a time zone; what is no date at all is told by its row when it is read."""
    import datetime

    try:
        return datetime.datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


class _Beyond(DataError):
    """A number that is no number of seconds."""

    def __init__(self, message: str, part: Part) -> None:
        super().__init__(message)
        self.part = part


def _counted(times: np.ndarray, column: str, where: Where, part: Part | None) -> np.ndarray:
    if part is None or part.name == PARTS[0][0]:
        written = _written_out(times)
        if written is not None and part is None:
            return written
        digits = (times >= FIRST_WRITTEN) & (times <= LAST_WRITTEN)
        if digits.any():  # no date, or one among times of another form
            no_dates = digits & ~_are_dates(times)
            row = int(np.argmax(no_dates if no_dates.any() else digits))
            raise _no_moment(where.row(row), column, f"{times[row]:.0f}")
    made = times if part is None else times / part.of_a_second
    beyond = np.abs(made) > LATEST
    if beyond.any():
        row = int(np.argmax(beyond))
        found = next(
            (Part(n, k) for n, k in PARTS if abs(made[row]) <= LATEST * k), Part(*PARTS[-1])
        )
        raise _Beyond(
            f"{where.row(row)}: {column} {times[row]:.0f} looks like {found.name}; "
            f"{'seconds' if part is None else part.name} since 1970 are expected",
            found,
        )
    return made


def _written_out(times: np.ndarray) -> np.ndarray | None:
    """Dates that are written without a mark between their digits, 20260302083000 for half past eight; None where any is no such.

    As milliseconds since 1970 the same digits would be of the years 2600 to 2636, which no clock shows.

    >>> _written_out(np.array([20260302083000.0, np.nan])).tolist(), _written_out(np.array([20261302083000.0]))
    ([1772440200.0, nan], None)
    """
    known = times == times
    if not known.any() or not _are_dates(times[known]).all():
        return None
    date, clock = np.divmod(times[known].astype(np.int64), 10**6)
    made = np.full(len(times), np.nan)
    made[known] = _days(date).astype("datetime64[s]").astype(np.int64) + (
        clock // 10000 * 3600.0 + clock // 100 % 100 * 60.0 + clock % 100
    )
    return made


def _are_dates(times: np.ndarray) -> np.ndarray:
    """Of which numbers the digits are those of a day of the calendar and of a time of day."""
    within = (times >= FIRST_WRITTEN) & (times <= LAST_WRITTEN)
    date, clock = np.divmod(np.where(within, times, FIRST_WRITTEN).astype(np.int64), 10**6)
    month, day = date // 100 % 100, date % 100
    real = (
        (month >= 1)
        & (month <= 12)
        & (day >= 1)
        & (_days(date).astype("datetime64[M]") == _months(date))
    )
    found: np.ndarray = (
        within & real & (clock // 10000 < 24) & (clock // 100 % 100 < 60) & (clock % 100 < 60)
    )
    return found


def _months(date: np.ndarray) -> np.ndarray:
    return ((date // 10000 - 1970) * 12 + date // 100 % 100 - 1).astype("datetime64[M]")


def _days(date: np.ndarray) -> np.ndarray:
    """Of dates such as 20260302."""
    days: np.ndarray = _months(date).astype("datetime64[D]") + (date % 100 - 1).astype(
        "timedelta64[D]"
    )
    return days


def _since_1970(cells: pa.ChunkedArray) -> np.ndarray:
    import pyarrow as pa

    micro = cells.cast(pa.timestamp("us", getattr(cells.type, "tz", None)), safe=False).cast(
        pa.int64()
    )
    return np.asarray(micro.to_numpy(), dtype=np.float64) / 1e6


def _one_by_one(cells: pa.ChunkedArray, column: str, where: Where) -> np.ndarray:
    """Dates of which some have a zone and some have none, or a cell that is no date at all."""
    import datetime

    made, numbers = np.full(len(cells), np.nan), list[int]()
    for row, text in enumerate(cells.to_pylist()):
        if text is None:
            continue
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            if _is_number(text):
                numbers.append(row)
                continue
            raise _no_moment(where.row(row), column, text) from None
        made[row] = (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    if numbers:
        date = int(np.argmax(~np.isnan(made)))
        raise DataError(
            f"{where.row(max(date, numbers[0]))}: {column} is {cells[max(date, numbers[0])].as_py()!r}, and "
            f"{cells[min(date, numbers[0])].as_py()!r} above it; write numbers of seconds in all rows, or dates in all"
        )
    return made


def _no_times(cells: pa.ChunkedArray, column: str, where: Where) -> np.ndarray:
    """Of a type that is none of times: refused at the first cell that holds anything."""
    row = next((row for row, cell in enumerate(cells) if cell.is_valid), None)
    if row is not None:
        raise _no_moment(where.row(row), column, cells[row].as_py())
    return np.full(len(cells), np.nan)


def _no_moment(place: str, column: str, cell: Any) -> ColumnError:
    """The error where a cell is no time; a time of day, say, without its date."""
    return ColumnError(
        f"{place}: {column} is {str(cell)!r}, neither a number of seconds nor a date like 2026-03-02T08:30:00Z; write all so",
        "or choose another column with --time COLUMN",
        "or give the column another name",
    )


def _is_number(text: str) -> bool:
    """Whether a cell is read as a number: not all that Python takes for one is."""
    import pyarrow as pa

    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


class _Encoded(NamedTuple):
    values: list[Any]
    at: np.ndarray
    """Which of the values stands in each row; -1 for none."""


def _encoded(cells: pa.ChunkedArray) -> _Encoded:
    import pyarrow as pa

    whole = cells.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    if not pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    at = np.asarray(whole.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    return _Encoded(whole.dictionary.to_pylist(), at)


def _stripped(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without spaces around it, and empty text as nothing; other cells as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells
    plain = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.is_in(pc.utf8_lower(plain), pa.array(sorted(UNKNOWN))), None, plain)


def _first_bad(cells: pa.ChunkedArray) -> tuple[int, Any]:
    for row, cell in enumerate(_stripped(cells).to_pylist()):
        try:
            float(cell if cell is not None else "nan")
        except (TypeError, ValueError):
            return row, cell
    return 0, cells[0].as_py()
