import numpy as np

from colab_lessons import data


def test_digits_are_split_without_overlap_and_evenly():
    split = data.digits()
    assert (
        split.x_train.dtype == np.float32 and 0 <= split.x_train.min() <= split.x_train.max() <= 1
    )
    assert len(split.x_train) + len(split.x_test) == 1797
    shares = np.bincount(split.y_test) / np.bincount(split.y_train)
    assert shares.max() - shares.min() < 0.02


def test_every_sum_stands_once_and_is_right():
    sums = data.sums()
    rows = {data.spell(row) for row in np.concatenate([sums.train, sums.test])}
    assert len(rows) == 10_000
    for text in rows:
        left, rest = text.split("+")
        right, answer = rest.split("=")
        assert int(left) + int(right) == int(answer[::-1])
    assert not {data.spell(r) for r in sums.train} & {data.spell(r) for r in sums.test}


def test_a_pair_is_held_out_in_both_orders():
    sums = data.sums()
    pairs = [
        {frozenset((data.spell(r)[:2], data.spell(r)[3:5])) for r in p}
        for p in (sums.train, sums.test)
    ]
    assert not pairs[0] & pairs[1] and 0.08 < len(sums.test) / 10_000 < 0.12


def test_sums_of_three_figures_have_four():
    found = data.sums(3, test_share=0.5)
    assert found.train.shape[1] == 3 + 1 + 3 + 1 + 4 and found.answer == 8
    text = data.spell(found.train[0])
    left, right = text[:7].split("+")
    assert text[7] == "=" and int(text[8:][::-1]) == int(left) + int(right)
