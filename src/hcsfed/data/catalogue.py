"""What there is to know of each named set before it is read: what it holds, whose it is, and where its files are."""

from __future__ import annotations

from dataclasses import dataclass

from hcsfed.data.cifar import CIFAR10
from hcsfed.data.fetch import fetch
from hcsfed.data.files import Published, find
from hcsfed.data.mnist import FASHION_MNIST, MNIST
from hcsfed.data.registries import DATASETS
from hcsfed.data.shakespeare import TINYSHAKESPEARE


@dataclass(frozen=True)
class Entry:
    """One set; ``files`` is empty where nothing has to be fetched."""

    holds: str
    licence: str
    reference: str
    files: tuple[Published, ...] = ()

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(file.size for file in self.files)

    def place(self) -> str | None:
        """Where the set lies; None where something of it has yet to be downloaded."""
        if not self.files:
            return "built in"
        places = [find(file) for file in self.files]
        if not all(places):
            return None
        return ", ".join(sorted({str(path.parent) for place in places if place for path in place.values()}))


CATALOGUE: dict[str, Entry] = {
    "digits": Entry("1,437 + 360 grey images of 8×8, 10 classes", "CC BY 4.0", "Alpaydin and Kaynak 1998"),
    "mnist": Entry("60,000 + 10,000 grey images of 28×28, 10 classes", "CC BY-SA 3.0", "LeCun et al. 1998", MNIST),
    "fashion-mnist": Entry(
        "60,000 + 10,000 grey images of 28×28, 10 classes", "MIT", "Xiao, Rasul and Vollgraf 2017", FASHION_MNIST
    ),
    "cifar10": Entry(
        "50,000 + 10,000 colour images of 32×32, 10 classes", "none stated", "Krizhevsky 2009", (CIFAR10,)
    ),
    "shakespeare": Entry(
        "1.1 million characters, a client per role", "public domain", "Karpathy 2015", (TINYSHAKESPEARE,)
    ),
    "synthetic": Entry("logistic models of 60 inputs, 10 classes", "generated", "Li et al. (FedProx) 2020"),
    "quadratic": Entry("least squares with known optima", "generated", "-"),
}


def fetch_set(name: str) -> Entry:
    """Bring all files of a named set onto this machine."""
    DATASETS[name]  # an unknown name is refused with a suggestion
    entry = CATALOGUE[name]
    for file in entry.files:
        fetch(file)
    return entry
