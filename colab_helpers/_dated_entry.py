"""Statements with a date on which to look again."""

from __future__ import annotations

from datetime import date


class Dated:
    """A statement of a table that has a day, `review`, on which to look at it again."""

    review: date

    def is_due(self, today: date) -> bool:
        """Say whether this row is past the date on which to look again.

        `today` is the day to judge by.
        """
        return today > self.review
