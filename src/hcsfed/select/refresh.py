"""How old the server's picture of a client may be: who trains before a pick, and who is due for another visit.

Under ``stale`` the picked alone send anew what they are known by, so whoever is unlucky is known by an old message. An
unbiased design stays unbiased all the same; it only spreads its cohort by what was true once.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from hcsfed.errors import bad
from hcsfed.types import Ints

Refresh = Literal["fresh", "stale"]


def check_refresh(owner: str, refresh: str, max_age: int) -> None:
    """Refuse what is no way of refreshing."""
    if refresh not in ("fresh", "stale"):
        raise bad("refresh", owner, "one of fresh, stale", refresh)
    if isinstance(max_age, bool) or not isinstance(max_age, int) or max_age < 0:
        raise bad("max_age", owner, "an int >= 0", max_age)


def who_trains(refresh: str) -> Literal["picked", "all"]:
    """Before the pick."""
    return "all" if refresh == "fresh" else "picked"


def overdue(ages: Ints | None, max_age: int, places: int, rng: np.random.Generator) -> Ints:
    """Who was heard at least ``max_age`` rounds ago (0: nobody is due): the oldest, on up to half of the places.

    They are picked for certain and count as themselves, with ω_k, so that whatever is unbiased for the others is
    unbiased for all; half of the places stay with the others, whom the design must be able to reach.
    """
    if not max_age or ages is None:
        return np.zeros(0, np.int64)
    due = np.flatnonzero(ages >= max_age)
    if len(due) > places // 2:
        due = due[np.lexsort((rng.random(len(due)), -ages[due]))[: places // 2]]
    return np.sort(due)
