"""What the user calls a model → the module that starts round 0, seeded."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import nn

from hcsfed.clients.models import MODELS
from hcsfed.errors import SettingError, bad
from hcsfed.rng import keys
from hcsfed.types import Federation

Model = str | nn.Module | Callable[..., nn.Module]


def build_module(federation: Federation, model: Model, seed: int, **options: Any) -> nn.Module:
    """The module that a name, a ``package.module:factory``, a factory or a module stands for.

    A factory gets ``input_shape`` and ``classes`` (for regression the number of targets) as far as it takes them.
    Its random numbers are seeded; the global generator is given back as it was.
    """
    if isinstance(model, nn.Module):
        if options:
            raise SettingError(f"a model given as a module takes no options, got {', '.join(options)}")
        return model
    inputs = {"input_shape": federation.x.shape[1:], "classes": federation.classes or prod(federation.y.shape[1:])}
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(int(keys(seed, "model", 0, 0)) & 2**63 - 1)
        if isinstance(model, str) and ":" not in model:
            return MODELS.build(model, *inputs.values(), **options)
        factory = _imported(model) if isinstance(model, str) else model
        if not callable(factory):
            raise bad("model", "local training", "a name, package.module:factory, a module or a factory", model)
        return _called(factory, inputs, options)


def _imported(path: str) -> Any:
    """The object that ``package.module:name`` names; the working directory is looked into as well."""
    where, _, name = path.partition(":")
    folder = os.getcwd()
    added = folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(where)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever the user's own code does
        raise SettingError(f"model {path!r} can't be imported: {_first_line(error)}") from error
    finally:
        if added and folder in sys.path:
            sys.path.remove(folder)
    return found


def _called(factory: Callable[..., Any], inputs: dict[str, Any], options: dict[str, Any]) -> nn.Module:
    name = getattr(factory, "__qualname__", repr(factory))
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        parameters = {}  # type: ignore[assignment]
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for option in options:
        if option not in parameters and not anything:
            raise SettingError(f"model {name} takes no option {option!r}; it takes: {', '.join(parameters) or 'none'}")
    given = {k: v for k, v in inputs.items() if k in parameters}
    try:
        module = factory(**{**given, **options})
    except Exception as error:
        raise SettingError(f"model {name} could not be built: {_first_line(error)}") from error
    if not isinstance(module, nn.Module):
        raise SettingError(f"model {name} must give a torch.nn.Module, got {type(module).__name__}")
    return module


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
