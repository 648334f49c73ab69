"""Clients that mean harm: what they send and say in place of the truth. Simulated, so that guards can be measured.

An attack is one file and one line here. It says nothing of how likely it is, only what it would do.
"""

from __future__ import annotations

from hcsfed.attack.adversaries import Adversaries
from hcsfed.attack.contract import Attack, nobody
from hcsfed.attack.inflate import Inflate
from hcsfed.attack.lie import Lie
from hcsfed.attack.nan import NotANumber
from hcsfed.attack.replay import Replay
from hcsfed.attack.scale import Scale
from hcsfed.registry import Registry

ATTACKS: Registry[Attack] = Registry("attack")
ATTACKS.add("none", nobody)
ATTACKS.add("inflate", Inflate)
ATTACKS.add("lie", Lie)
ATTACKS.add("nan", NotANumber)
ATTACKS.add("scale", Scale)
ATTACKS.add("replay", Replay)

__all__ = ["ATTACKS", "Adversaries", "Attack", "Inflate", "Lie", "NotANumber", "Replay", "Scale", "nobody"]
