"""What ``run`` and ``compare`` print for people: a progress bar on standard error, tables on standard output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hcsfed.record import RoundRecord, Run
from hcsfed.report.words import number
from hcsfed.settings import Settings


def bars(*, quiet: bool) -> Progress:
    """Round, accuracy and time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[accuracy]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet,
    )


def shown(record: RoundRecord) -> str:
    return "" if record["accuracy"] is None else f"accuracy {record['accuracy']:.3f}"


@contextmanager
def progress(settings: Settings, *, quiet: bool) -> Iterator[Callable[[RoundRecord], None]]:
    with bars(quiet=quiet) as live:
        task = live.add_task(settings.selector.name, total=settings.rounds, accuracy="")

        def advance(record: RoundRecord) -> None:
            live.update(task, completed=record["round"], accuracy=shown(record) or live.tasks[task].fields["accuracy"])

        yield advance


def summary(run: Run) -> None:
    """The end of ``hcsfed run``."""
    table = Table(show_header=False, box=None, pad_edge=False)
    federation = run.about["federation"]
    clients = f"{federation['name']}, {federation['clients']:,} clients, {run.about['cohort_size']:,} a round"
    rows = [
        ("federation", clients),
        ("selector", run.settings["selector"]["name"]),
        ("rounds", f"{len(run.history):,}"),
    ]
    if run.final_accuracy is not None:
        rows.append(("final accuracy", f"{run.final_accuracy:.4f}"))
    if run.final_loss is not None:
        rows.append(("final loss", f"{run.final_loss:.4f}"))
    target = run.settings["target"]
    if target:
        reached = run.rounds_to(target)
        rows.append((f"rounds to {target:g}", "not reached" if reached is None else str(reached)))
    if run.epsilon is not None:
        delta, each = run.settings["privacy"]["delta"], run.about["epsilon_of_a_message"]
        rows.append(("privacy", f"ε = {run.epsilon:.3g} at δ = {delta:g}, of features alone ({each:.3g} a message)"))
    rows += [
        ("uploaded", size(run.upload_bytes)),
        ("downloaded", size(run.download_bytes)),
        ("local steps", f"{run.local_steps:,}"),
    ]
    if run.simulated_seconds is not None:
        rows.append(("simulated time", number(run.simulated_seconds, "seconds")))
    rows += [
        ("server keeps", kept(run)),
        ("seconds", f"{run.seconds:.2f} ({run.about['engine']})"),
        ("folder", str(run.folder)),
    ]
    for row in rows:
        table.add_row(*row)
    Console().print(table, soft_wrap=True)


def kept(run: Run) -> str:
    """In memory, and in files where rows lie there."""
    return size(run.server_bytes or 0) + (f", {size(run.disk_bytes)} on disk" if run.disk_bytes else "")


def size(amount: float) -> str:
    """Bytes in powers of 1,000: ``3.1 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"
