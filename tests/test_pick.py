"""The gate through which every selection passes, with selectors that do what they should not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from hcsfed import simulate
from hcsfed.errors import SettingError
from hcsfed.rng import stream
from hcsfed.select import Claims, pick
from hcsfed.types import Selection, View

VIEW = View(sizes=np.full(5, 10), weights=np.full(5, 0.2), available=np.ones(5, bool))


@dataclass(frozen=True)
class Fixed:
    """Picks what it was told to, in that order."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]
    everyone_trains: bool = False

    name: ClassVar[str] = "fixed"

    @property
    def claims(self) -> Claims:
        return Claims(unbiased=False, fixed_size=True, trains="all" if self.everyone_trains else "picked")

    def select(self, view: View, size: int, rng: np.random.Generator) -> Selection:
        return Selection(np.array(self.ids), np.array(self.weights))


def test_ids_come_out_ascending_with_their_weights():
    picked = pick(Fixed((4, 0, 2), (0.5, 0.2, 0.3)), VIEW, 3, stream(0, "select"))
    assert picked.ids.tolist() == [0, 2, 4]
    assert picked.weights.tolist() == [0.2, 0.3, 0.5]


@pytest.mark.parametrize(
    ("ids", "weights", "told"),
    [((1, 1), (0.5, 0.5), "ids of fixed must be distinct"), ((1, 2), (1.0,), "weights of fixed")],
)
def test_a_selection_that_means_nothing_is_refused(ids, weights, told):
    with pytest.raises(SettingError, match=told):
        pick(Fixed(ids, weights), VIEW, 2, stream(0, "select"))


def test_an_order_of_its_own_does_not_give_one_clients_weight_to_another():
    def run(ids, weights, everyone_trains):
        selector = Fixed(ids, weights, everyone_trains)
        return simulate("digits", selector=selector, cohort=3, rounds=1, steps=5, lr=0.5).final_loss

    expected = run((3, 50, 90), (0.1, 0.2, 0.7), False)
    assert run((90, 3, 50), (0.7, 0.1, 0.2), False) == expected
    assert run((90, 3, 50), (0.7, 0.1, 0.2), True) == expected
