"""``hcsfed run``: one federated training run."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from hcsfed.cli import flags as f
from hcsfed.errors import SettingError
from hcsfed.settings import Settings


def run(
    data: f.Data = None,
    partition: f.Partition = None,
    clients: f.Clients = None,
    model: f.Model = None,
    selector: Annotated[str | None, typer.Option("--selector", help="Who answers. [random]")] = None,
    algorithm: f.Algorithm = None,
    cohort: f.Cohort = None,
    rounds: f.Rounds = None,
    seed: Annotated[str | None, typer.Option("--seed", help="Everything random follows from it. [0]")] = None,
    target: f.Target = None,
    eval_every: f.EvalEvery = None,
    steps: f.Steps = None,
    epochs: f.Epochs = None,
    batch: f.Batch = None,
    lr: f.Rate = None,
    device: f.Device = None,
    backend: f.Backend = None,
    config: f.Config = None,
    set_: f.Assign = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run's folder. [a new one in runs/]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run that is in --out.")] = False,
    track: Annotated[str | None, typer.Option("--track", help="Log to mlflow or tensorboard as well.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> None:
    """Train one model over a federation and leave the run in a folder.

    Exit code 0 when the run completed (also when it missed the target), 2 for bad input, 130 for Ctrl-C.
    """
    settings = f.settings_from(
        config,
        set_,
        data=data,
        partition=partition,
        clients=clients,
        model=model,
        selector=selector,
        algorithm=algorithm,
        cohort=cohort,
        rounds=rounds,
        seed=seed,
        target=target,
        eval_every=eval_every,
        steps=steps,
        epochs=epochs,
        batch=batch,
        lr=lr,
        device=device,
        backend=backend,
    )
    if resume and out is None:
        raise SettingError("--resume needs --out, the folder of the run to continue")
    from hcsfed.assemble import assemble
    from hcsfed.cli.show import progress, summary
    from hcsfed.interrupt import gentle
    from hcsfed.simulate import run as run_parts

    parts = assemble(settings)
    folder = out or new_folder(settings)
    quiet = as_json or not sys.stderr.isatty()
    with gentle() as stop, progress(settings, quiet=quiet) as advance:
        done = run_parts(parts, out=folder, resume=resume, track=track, listeners=(advance, stop))
    if as_json:
        print(json.dumps(done.as_json()))
    else:
        summary(done)


def new_folder(settings: Settings) -> Path:
    """A folder of its own for each call: when, what, with which seed."""
    when = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    what = Path(settings.data.name).stem
    return Path("runs") / f"{when}-{what}-{settings.selector.name}-s{settings.seed}"
