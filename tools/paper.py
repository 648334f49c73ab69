"""Put the tables that `hcsfed paper NAME --from stored` prints into docs/paper.md and README.md.

Between two comments stands one table of an experiment: the one whose title begins with the words behind the colon, or
its verdicts, all of them or those of the claims that begin so; of `all` it is the summary.

    <!-- hcsfed paper table1 --from stored: mnist, non-iid, logistic -->
    <!-- hcsfed paper table1 --from stored: Verdicts: fewer rounds -->
    <!-- end -->
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hcsfed.paper.claims import claims, summary
from hcsfed.paper.collect import stored
from hcsfed.paper.preset import experiment, experiments
from hcsfed.paper.show import UNMEASURED, tables
from hcsfed.paper.store import Store
from hcsfed.paper.verdict import table as verdicts

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("docs/paper.md", "README.md")
SEEDS = 3
PLACE = re.compile(r"(<!-- hcsfed paper (\w+) --from stored: (.+?) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)
VERDICTS = "Verdicts"


def renewed(text: str, store: Store) -> str:
    """A page with its tables as the figures have them."""
    return PLACE.sub(lambda found: f"{found[1]}\n{_table(found[2], found[3], store)}\n\n{found[4]}", text)


def _table(name: str, title: str, store: Store) -> str:
    if name == "all":
        return summary(experiments(name), store, SEEDS).markdown()
    if title.startswith(VERDICTS):
        about = title.removeprefix(VERDICTS).removeprefix(": ")
        found = [claim for claim in claims(name, store, SEEDS) if claim.claim.startswith(about)]
        return verdicts(found).markdown() if found else UNMEASURED
    shown = [table for table in tables(experiment(name), store, SEEDS) if table.title.startswith(title)]
    if len(shown) > 1:
        raise SystemExit(f"{name} has {len(shown)} tables that begin with {title!r}")
    return shown[0].markdown() if shown else UNMEASURED


def stale() -> list[str]:
    """Pages whose tables are not those of the stored figures."""
    store = stored()
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    return [page for page, text in texts.items() if renewed(text, store) != text]


def main() -> int:
    changed = stale()
    for page in changed:
        if "--check" in sys.argv[1:]:
            print(f"tables in {page} are stale: run `python tools/paper.py`")
        else:
            path = ROOT / page
            path.write_text(renewed(path.read_text(encoding="utf-8"), stored()), encoding="utf-8")
            print(f"wrote {page}")
    return 1 if changed and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
