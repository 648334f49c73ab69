"""The sets and partitions that users name. A new one is one file and one line here."""

from __future__ import annotations

from hcsfed.data.cifar import cifar10
from hcsfed.data.digits import digits
from hcsfed.data.dirichlet import dirichlet
from hcsfed.data.folder import from_folder
from hcsfed.data.iid import iid
from hcsfed.data.mnist import fashion_mnist, mnist
from hcsfed.data.natural import natural
from hcsfed.data.npz import from_npz
from hcsfed.data.partition import Partition
from hcsfed.data.quadratic import quadratic
from hcsfed.data.shakespeare import shakespeare
from hcsfed.data.shard import shard
from hcsfed.data.source import Source
from hcsfed.data.synthetic import synthetic
from hcsfed.registry import Registry

DATASETS: Registry[Source] = Registry("data set")
DATASETS.add("digits", digits)
DATASETS.add("mnist", mnist)
DATASETS.add("fashion-mnist", fashion_mnist)
DATASETS.add("cifar10", cifar10)
DATASETS.add("shakespeare", shakespeare)
DATASETS.add("synthetic", synthetic)
DATASETS.add("quadratic", quadratic)

FILES: Registry[Source] = Registry("data")
FILES.add(".npz file", from_npz)
FILES.add("folder of images", from_folder)

PARTITIONS: Registry[Partition] = Registry("partition")
PARTITIONS.add("iid", iid)
PARTITIONS.add("shard", shard)
PARTITIONS.add("dirichlet", dirichlet)
PARTITIONS.add("natural", natural)
