"""The flags that ``run``, ``compare`` and ``variance`` share: short forms of dotted settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hcsfed.settings import Settings, merge, parse_assignments, parse_value, read_toml

_RUN = "What is run"
_LOCAL = "Local training"
_HOW = "How and where"


def _flag(name: str, text: str, panel: str) -> Any:
    return typer.Option(name, help=text, rich_help_panel=panel, show_default=False)


Text = str | None
Data = Annotated[Text, _flag("--data", "Data set, or a path to an .npz or a folder of images. [digits]", _RUN)]
Partition = Annotated[
    Text, _flag("--partition", "How rows are dealt to clients: iid, shard, dirichlet, natural.", _RUN)
]
Clients = Annotated[Text, _flag("--clients", "N, number of clients.", _RUN)]
Model = Annotated[Text, _flag("--model", "A model by name, or package.module:factory. [logistic]", _RUN)]
Algorithm = Annotated[Text, _flag("--algorithm", "Federated algorithm. [fedavg]", _RUN)]
Cohort = Annotated[Text, _flag("--cohort", "m, who answers a round: a share (0.1) or a count (10). [0.1]", _RUN)]
Rounds = Annotated[Text, _flag("--rounds", "Number of rounds. [100]", _RUN)]
Target = Annotated[Text, _flag("--target", "Test accuracy to reach.", _RUN)]
EvalEvery = Annotated[Text, _flag("--eval-every", "Rounds between evaluations. [1]", _RUN)]
Steps = Annotated[Text, _flag("--steps", "Minibatch steps a client takes. [50]", _LOCAL)]
Epochs = Annotated[Text, _flag("--epochs", "Passes over a client's rows, instead of steps.", _LOCAL)]
Batch = Annotated[Text, _flag("--batch", "Rows of a minibatch. [50]", _LOCAL)]
Rate = Annotated[Text, _flag("--lr", "Learning rate. [0.01]", _LOCAL)]
Device = Annotated[Text, _flag("--device", "auto, cpu or cuda. [auto]", _HOW)]
Backend = Annotated[Text, _flag("--backend", "auto, loop or batched. [auto]", _HOW)]
Config = Annotated[Path | None, _flag("--config", "A TOML file of settings; flags win over it.", _HOW)]
Selectors = Annotated[
    str, typer.Option("--selectors", help="Selectors, separated by commas; options as in hcsfed:features=sketch.")
]
PictureAt = Annotated[
    int | None,
    typer.Option(
        "--picture-at",
        min=0,
        help="Add clients in the plane, as selectors see them at this round of full participation (trained anew).",
    ),
]
On = Annotated[
    str, typer.Option("--on", help="Where the runs are done: processes, ray or ray:ADDRESS (host:port, ray://…, auto).")
]
Assign = Annotated[
    list[str] | None, _flag("--set", "Any setting by its dotted name, e.g. partition.alpha=0.3. Repeatable.", _HOW)
]

_SETTING_OF = {
    "data": "data",
    "partition": "partition",
    "clients": "partition.clients",
    "model": "model",
    "selector": "selector",
    "algorithm": "algorithm",
    "cohort": "cohort",
    "rounds": "rounds",
    "seed": "seed",
    "target": "target",
    "eval_every": "eval_every",
    "steps": "local.steps",
    "epochs": "local.epochs",
    "batch": "local.batch",
    "lr": "local.lr",
    "device": "device",
    "backend": "backend",
}
_WORDS = {"data", "partition", "model", "selector", "algorithm", "device", "backend"}


def settings_from(config: Path | None, assignments: list[str] | None, **flags: str | None) -> Settings:
    """Defaults, then the file, then the flags, then ``--set``."""
    given = {
        _SETTING_OF[name]: text if name in _WORDS else parse_value(text)
        for name, text in flags.items()
        if text is not None
    }
    return merge(Settings(), read_toml(config) if config else {}, given, parse_assignments(assignments or []))
