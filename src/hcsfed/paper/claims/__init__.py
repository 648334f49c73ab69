"""The paper's claims, each answered by a rule of :mod:`hcsfed.paper.sample` from the figures of its experiment.

The stated target on MNIST is 80 %; on Fashion-MNIST, where full participation itself ends below that, claims are judged
at 75 %, which is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from hcsfed.paper.cells import Table
from hcsfed.paper.claims.elsewhere import fednova, rounds
from hcsfed.paper.claims.measured import heterogeneity, picture, variance
from hcsfed.paper.claims.parts import ablation, clusters, compression
from hcsfed.paper.claims.rates import rates
from hcsfed.paper.claims.rules import FORMS
from hcsfed.paper.claims.table1 import finals, table1
from hcsfed.paper.preset import Experiment, experiment
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import Claim, by_form

_ANSWERS: Mapping[str, Callable[[Experiment, Store, int], Iterator[Claim]]] = {
    "table1": table1,
    "table3": finals,
    "table4": finals,
    "clusters": clusters,
    "compression": compression,
    "ablation": ablation,
    "fednova": fednova,
    "rounds": rounds,
    "rates": rates,
    "variance": variance,
    "heterogeneity": heterogeneity,
    "picture": picture,
}


def claims(name: str, store: Store, seeds: int) -> list[Claim]:
    """All claims that an experiment answers; none where there is nothing to answer them from."""
    answer = _ANSWERS.get(name)
    found = [] if answer is None else list(answer(experiment(name), store, seeds))
    return found if any(claim.verdict != "not measured" for claim in found) else []


def summary(asked: Iterable[Experiment], store: Store, seeds: int) -> Table:
    """The claims of several experiments, each with its verdict for every form of the scheme."""
    return by_form([c for one in asked for c in claims(one.name, store, seeds)], list(FORMS.values()))
