"""The data that lessons train on: shipped with a package, or made on the spot.

Nothing is downloaded: a class of thirty opens a lesson at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SUM_ALPHABET = "0123456789+=-"


@dataclass(frozen=True)
class Split:
    """Training and test data as NumPy arrays: `x` float32 (rows, features), `y` int64 (rows,)."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def digits(test_share: float = 0.2, seed: int = 0) -> Split:
    """Return scikit-learn's handwritten digits: 1,797 images of 8 × 8 pixels, 10 classes.

    Pixels are scaled to 0 … 1. Every class has the same share in both parts. Source: Alpaydin and
    Kaynak, "Optical Recognition of Handwritten Digits", UCI (1998). `test_share`, from 0 to 1, is held
    out; `seed` chooses which.

    >>> digits().x_train.shape, digits().x_test.shape
    ((1437, 64), (360, 64))
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        (pixels / 16).astype(np.float32),
        labels.astype(np.int64),
        test_size=test_share,
        random_state=seed,
        stratify=labels,
    )
    x_train, x_test, y_train, y_test = parts
    return Split(x_train, y_train, x_test, y_test)


@dataclass(frozen=True)
class Sums:
    """Sums or differences as rows of token ids, and where the answer begins.

    A row reads "07+58=560": both numbers with leading zeros, then the result, last digit first, because
    that is the order in which one adds. `answer` is the position of the result's first digit.
    """

    train: np.ndarray
    test: np.ndarray
    answer: int


def sums(digits: int = 2, test_share: float = 0.1, seed: int = 0, sign: str = "+") -> Sums:
    """Return every addition of two numbers with so many digits, split at random.

    Pairs of numbers are held out in both orders: a test row has no twin in training. `test_share`,
    from 0 to 1, of the pairs is held out; `seed` chooses which. With `sign` "-" these are the
    subtractions whose result isn't negative.

    >>> data = sums()
    >>> len(data.train) + len(data.test), len(spell(data.test[0]))
    (10000, 9)
    >>> differences = sums(sign="-")
    >>> len(differences.train) + len(differences.test), spell(differences.test[0])[2]
    (5050, '-')
    """
    count = 10**digits
    random = np.random.default_rng(seed)
    left, right = np.divmod(random.permutation(count * count), count)
    draws = random.random((count, count))
    is_test = draws[np.minimum(left, right), np.maximum(left, right)] < test_share
    result = left + right if sign == "+" else left - right
    columns = [
        _digits(left, digits),
        _column(sign, left),
        _digits(right, digits),
        _column("=", left),
    ]
    columns.append(_digits(result, digits + 1)[:, ::-1])
    rows = np.concatenate(columns, axis=1)
    valid = result >= 0
    return Sums(rows[valid & ~is_test], rows[valid & is_test], answer=2 * digits + 2)


def spell(row: np.ndarray) -> str:
    """Return token ids as text.

    `row` holds ids from 0 on, as `SUM_ALPHABET` orders them; others appear as dots.

    >>> spell(np.array([0, 7, 10, 5, 8, 11, 5, 6, 0]))
    '07+58=560'
    >>> spell(np.array([9, 0, 0, 13]))
    '900·'
    """
    return "".join(SUM_ALPHABET[token] if token < len(SUM_ALPHABET) else "·" for token in row)


def _digits(numbers: np.ndarray, width: int) -> np.ndarray:
    """The decimal figures of each number, first one first, one column each."""
    return numbers[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10


def _column(sign: str, like: np.ndarray) -> np.ndarray:
    return np.full((len(like), 1), SUM_ALPHABET.index(sign))
