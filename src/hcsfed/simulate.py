"""The round loop: data → clients → features → select → aggregate → record → report.

One round is one pass down :func:`rounds`. What the server hears before it picks is in :mod:`hcsfed.hearing`, what it
makes of the answers in :mod:`hcsfed.collecting`; everything else is a stage's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from hcsfed.asking import ask, circumstances, learn, within
from hcsfed.assemble import Parts, assemble, describe
from hcsfed.collecting import collect
from hcsfed.errors import DivergedError, SettingError, bad
from hcsfed.hearing import hear, wait
from hcsfed.memory import price, spent
from hcsfed.record import RoundRecord, Run, RunFolder, entry
from hcsfed.record.track import following, tracker
from hcsfed.select import Selector
from hcsfed.settings import Choice, Settings, merge
from hcsfed.standing import Standing, advance
from hcsfed.stopwatch import Stopwatch
from hcsfed.types import Answers, Federation

Listener = Callable[[RoundRecord], object]
SHORT = {"clients": "partition.clients"} | {name: f"local.{name}" for name in ("lr", "steps", "epochs", "batch")}
EXPLODED = 1e4  # times the loss at the start (or 1, if that is more)


def rounds(parts: Parts, standing: Standing) -> Iterator[tuple[RoundRecord, Standing]]:
    """Round after round, from where the run stands to its end."""
    settings, trainer, algorithm = parts.settings, parts.trainer, parts.algorithm
    test = parts.federation.test_x, parts.federation.test_y
    limit = EXPLODED * max(trainer.evaluate(trainer.initial(), *test)[0], 1.0)

    for t in range(standing.round, settings.rounds):
        watch = Stopwatch()
        train = partial(algorithm.train, parts.setup, standing.algorithm, standing.parameters, round=t)
        with watch("hear"):
            now = within(parts, standing.reach, t)
            heard = hear(parts, standing.heard, standing.parameters, t, parts.adversaries.behind(train), now)
            heard = replace(heard, view=parts.guard.view(heard.view))
        with watch("select"):
            selector, asked = ask(parts, standing, now, heard.view)
            selection, waited = wait(parts, now, heard, asked)
        with watch("train"):
            got = collect(parts, standing, heard, selection)
        with watch("aggregate"):
            standing = advance(parts, standing, selector, asked, got.answers, got.estimate)
            standing = replace(standing, reach=learn(parts, standing.reach, now, asked.ids, selection.ids))
        loss = accuracy = None
        with watch("evaluate"):
            if (t + 1) % settings.eval_every == 0 or t + 1 == settings.rounds:
                loss, accuracy = trainer.evaluate(standing.parameters, *test)
                if not loss <= limit:
                    raise DivergedError(
                        f"the test loss exploded in round {t + 1} (it is {loss:.3g}){furthest(got.answers)}; "
                        f"local.lr is {settings.local.lr:g}: try a smaller one"
                    )
        cost = heard.cost + price(parts, got.received, trained=heard.trained, sent=heard.sent, whom=asked.ids) + waited
        line = entry(t, got.selection, got.answers, cost, loss, accuracy, watch)
        private = {"epsilon": spent(parts, standing.heard, settings.privacy.delta)}
        line |= circumstances(parts, now, asked, cost) | standing.kept(parts.setup.shelves) | private
        yield line, standing
        parts.setup.shelves.settle()  # whoever wanted to save this round has done so


def furthest(answers: Answers) -> str:
    """Whom to look at first."""
    return f", in which client {answers.ids[answers.norms.argmax()]} moved furthest" if len(answers.ids) else ""


def run(
    parts: Parts,
    *,
    out: Path | None = None,
    resume: bool = False,
    track: str | None = None,
    listeners: tuple[Listener, ...] = (),
) -> Run:
    """Run to the last round; with ``out``, leave a folder that survives a crash and can be taken up again."""
    settings, about = parts.settings.nested(), describe(parts)
    parts.setup.shelves.folder = out
    standing = Standing.first(parts)
    if track and not out:
        raise SettingError(f"track {track!r} needs a folder: give out as well")
    follower = tracker(track, out) if track and out else None
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(out, settings, about, resume=resume)) if out else None
        history = list(folder.history) if folder else []
        if follower:
            listeners = (*listeners, stack.enter_context(following(follower, settings, about, history)))
        if folder and folder.checkpoint:
            standing = Standing.of(*folder.checkpoint, parts.trainer.device)
        for entry, reached in rounds(parts, standing):
            if folder:
                folder.save(entry, reached.arrays())
            history.append(entry)
            for listen in listeners:
                listen(entry)
    return Run(settings, about, history, out)


def simulate(
    federation: Federation | str | Path | None = None,
    *,
    model: str | torch.nn.Module | Callable[..., torch.nn.Module] = "logistic",
    selector: str | Selector = "random",
    out: str | Path | None = None,
    resume: bool = False,
    track: str | None = None,
    listeners: tuple[Listener, ...] = (),
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """Train one model over a federation and return the run.

    Parameters
    ----------
    federation
        A :class:`~hcsfed.types.Federation`, the name of a data set, or a path to data of your own; ``data`` means the
        same.
    model
        A name, a module, or a function that makes one.
    selector
        A name, or a selector.
    out, resume
        A folder to leave the run in, and whether a run found there is continued.
    track
        ``mlflow`` or ``tensorboard``: log the same figures there.
    listeners
        Called with each round's record.
    options
        Dotted settings as in ``--set``: ``{"partition.alpha": 0.3, "local.momentum": 0.9}``.
    **settings
        The settings of :class:`~hcsfed.settings.Settings` by their names (``cohort``, ``rounds``, ``seed``, ``target``,
        …), and the short forms ``clients``, ``lr``, ``steps``, ``epochs`` and ``batch`` of the command line.
    """
    if federation is not None and "data" in settings:
        raise bad("data", "simulate", "left out where a federation is given", settings["data"])
    given = {SHORT.get(name, name): value for name, value in settings.items()}
    federation = given.get("data", "digits") if federation is None else federation
    if not isinstance(federation, Federation | str | Path):
        raise bad("federation", "simulate", "a Federation, a name or a path", type(federation).__name__)
    if not isinstance(selector, str) and (isinstance(selector, type) or not isinstance(selector, Selector)):
        raise bad("selector", "simulate", "a name or a selector", selector)
    given["data"] = federation.name if isinstance(federation, Federation) else str(federation)
    given["model"] = model if isinstance(model, str) else "own"
    given["selector"] = selector if isinstance(selector, str) else {**_options(selector), "name": selector.name}
    whole = merge(Settings(), given, options or {})
    if isinstance(federation, Federation) and (whole.partition != Choice("default") or whole.data.options):
        raise bad("partition", "simulate", "left out where a Federation is given", whole.nested()["partition"])
    parts = assemble(
        whole,
        federation=federation if isinstance(federation, Federation) else None,
        model=None if isinstance(model, str) else model,
        selector=None if isinstance(selector, str) else selector,
    )
    return run(parts, out=None if out is None else Path(out), resume=resume, track=track, listeners=listeners)


def _options(selector: Selector) -> dict[str, Any]:
    return asdict(selector) if is_dataclass(selector) and not isinstance(selector, type) else {}


class _Callable(ModuleType):
    """Python binds ``hcsfed.simulate`` to this module once it is loaded; calling it is calling its function."""

    __call__ = staticmethod(simulate)


sys.modules[__name__].__class__ = _Callable
