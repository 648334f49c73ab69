"""What is said of a claim, and from which findings it follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hcsfed.paper.show import NOTHING, Table

Verdict = Literal["reproduced", "reproduced only against the shrunk baseline", "not reproduced", "not measured"]


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, for one form of its scheme, with our answer.

    Parameters
    ----------
    claim
        What the paper says, in our words.
    form
        Whose: HCSFed to the letter, as better founded, or ours beyond it.
    because
        The figures that it follows from.
    """

    claim: str
    form: str
    verdict: Verdict
    because: str


def of_all(found: Sequence[bool | None]) -> Verdict:
    """Of something that is claimed everywhere: it has to hold in all places, and to have been measured."""
    if any(holds is False for holds in found):
        return "not reproduced"
    return "not measured" if not found or any(holds is None for holds in found) else "reproduced"


def of_two(shrunk: Sequence[bool | None], unbiased: Sequence[bool | None]) -> Verdict:
    """Of something that is claimed over Random: against the paper's Random and against the unbiased one."""
    first, second = of_all(shrunk), of_all([*shrunk, *unbiased])
    if first == "reproduced" and second == "not reproduced":
        return "reproduced only against the shrunk baseline"
    return second


def table(claims: Sequence[Claim]) -> Table:
    """Claims as a table."""
    rows = tuple((c.claim, c.form, c.verdict, c.because) for c in claims)
    return Table("Verdicts", ("claim", "form", "verdict", "because"), rows, words=True)


def by_form(claims: Sequence[Claim], forms: Sequence[str]) -> Table:
    """One row a claim, one column a form of the scheme; what is claimed of no form is left out."""
    found = {(claim.claim, claim.form): claim.verdict for claim in claims if claim.form in forms}
    rows = dict.fromkeys(claim for claim, _ in found)
    cells = tuple((claim, *(found.get((claim, form), NOTHING) for form in forms)) for claim in rows)
    return Table("The claims", ("claim", *forms), cells, words=True)
