"""A mixin for table rows that have to be reviewed by a date."""

from __future__ import annotations

from datetime import date


class Dated:
    """A record with a review date."""

    review: date

    def is_due(self, today: date) -> bool:
        """Say whether this row is past the date on which to look again.

        `today` is the day to judge by.
        """
        return today > self.review
