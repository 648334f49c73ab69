"""A generator that goes through everything that can happen: each outcome of a random computation, with its probability.

The computation is played again and again. Wherever it asks for luck, one of the possibilities is taken; the next play
takes another at the last place where one is left. A uniform number is never drawn: it is an unknown of [0, 1) of which
comparisons tell more and more, each a decision with the probability that what is known so far gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations
from math import comb, factorial
from typing import Any

import numpy as np


def outcomes(play: Callable[[Luck], Any], **options: Any) -> Iterator[tuple[float, Any]]:
    """All results of ``play``, each with its probability; a result may come more than once."""
    path: list[list[Any]] = []  # of each decision: the place among its possibilities, and these with their chances
    while True:
        luck = Luck(path, **options)
        result = play(luck)
        yield luck.probability, result
        while path and path[-1][0] == len(path[-1][1]) - 1:
            path.pop()
        if not path:
            return
        path[-1][0] += 1


class Luck:
    """Stands in for a NumPy generator.

    Parameters
    ----------
    ordered
        One-dimensional uniform numbers are asked for their order alone, so that numbers in every order will do.
    weights
        What Gumbel noise is added to the logarithms of: their order is then that of draws by weight, one after another.
    """

    def __init__(self, path: list[list[Any]], *, ordered: bool = False, weights: Any = None) -> None:
        self.path, self.at, self.probability = path, 0, 1.0
        self.ordered, self.weights = ordered, weights

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"Luck knows no {name} yet: say here what it can come to, and with what probability")

    def decide(self, chances: Sequence[float]) -> int:
        """One of the possibilities, by its number."""
        if self.at == len(self.path):
            self.path.append([0, [i for i, chance in enumerate(chances) if chance > 1e-14]])
        place, possible = self.path[self.at]
        self.at += 1
        self.probability *= float(chances[possible[place]])
        return int(possible[place])

    def evenly(self, count: int) -> int:
        return self.decide(np.full(count, 1 / count))

    def random(self, size: Any = None) -> Any:
        if size is None:
            return Unknown(self)
        if self.ordered and isinstance(size, int):
            return (self.permutation(size) + 0.5) / size
        unknown = np.empty(size, object)
        unknown.flat = [Unknown(self) for _ in range(unknown.size)]
        return unknown

    def permutation(self, x: Any) -> Any:
        x = np.arange(x) if isinstance(x, int) else np.asarray(x)
        return x[list(list(permutations(range(len(x))))[self.evenly(factorial(len(x)))])]

    def choice(self, x: Any, size: int, *, replace: bool, shuffle: bool = True) -> Any:
        x = np.arange(x) if isinstance(x, int) else np.asarray(x)
        assert not replace
        return x[list(list(combinations(range(len(x)), size))[self.evenly(comb(len(x), size))])]

    def integers(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        low, high = (0, low) if high is None else (low, high)
        drawn = [low + self.evenly(high - low) for _ in range(size or 1)]
        return drawn[0] if size is None else np.array(drawn)

    def multinomial(self, n: int, shares: Any) -> Any:
        return np.bincount([self.decide(shares) for _ in range(n)], minlength=len(shares))

    def gumbel(self, size: int) -> Any:
        left, order = list(range(size)), []
        while left:
            of = np.asarray(self.weights, float)[left]
            order.append(left.pop(self.decide(of / of.sum())))
        rank = np.empty(size)
        rank[order] = np.arange(size)[::-1]
        return rank - np.log(self.weights)

    def by_law(self, cohorts: Sequence[Any], law: Any) -> Any:
        """One of the cohorts, by a law that is known up to its scale."""
        law = np.asarray(law, float)
        return cohorts[self.decide(law / law.sum())]


class Unknown:
    """A uniform number of [0, 1), times a factor."""

    def __init__(self, luck: Luck, factor: float = 1.0, known: list[float] | None = None) -> None:
        self.luck, self.factor = luck, factor
        self.known = [0.0, 1.0] if known is None else known  # shared by all multiples of the number

    def __mul__(self, factor: float) -> Unknown:
        return Unknown(self.luck, self.factor * float(factor), self.known)

    __rmul__ = __mul__

    def __lt__(self, bound: Any) -> bool:
        if bound is self:  # NumPy's searchsorted looks whether its numbers ascend
            return False
        low, high = self.known
        at = float(bound) / self.factor
        if not low < at < high:
            return high <= at
        share = (at - low) / (high - low)
        below = self.luck.decide([share, 1 - share]) == 0
        self.known[int(below)] = at
        return below

    def __gt__(self, bound: Any) -> bool:  # equality has probability 0
        return bound is not self and not self < bound

    __le__, __ge__ = __lt__, __gt__

    def __int__(self) -> int:
        whole = 0
        while not self < whole + 1:
            whole += 1
        return whole
