"""The fast way on CPU for linear models and stacks of Linear and ReLU: compiled, a client a core.

From the outside in: :mod:`trainer` shares clients out over threads, :mod:`kernel` trains one of them, :mod:`tiles` and
:mod:`softmax` do the arithmetic, in the :mod:`vectors` of this processor, on parameters laid out by :mod:`packing`.
"""

from hcsfed.clients.fused.trainer import FusedTrainer, supports

__all__ = ["FusedTrainer", "supports"]
