"""Local training of clients: what they are asked for, and every way to compute it."""

from hcsfed.clients.build import build_module
from hcsfed.clients.contract import LocalTraining, Trainer, Updates, steps_of
from hcsfed.clients.engine import make_trainer
from hcsfed.clients.layout import Layout
from hcsfed.clients.models import MODELS

__all__ = ["MODELS", "Layout", "LocalTraining", "Trainer", "Updates", "build_module", "make_trainer", "steps_of"]
