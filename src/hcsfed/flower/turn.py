"""One round on real machines, in the order of the simulator's: hear → select → train → aggregate.

Every number comes from the simulator's own parts; here is only who is asked for what, and what becomes of those who do
not answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from numpy.typing import NDArray

from hcsfed.aggregate import row_norms
from hcsfed.flower.arrays import RefusedError
from hcsfed.flower.desk import Desk
from hcsfed.flower.order import CONFIG, EXTRAS, MODEL, ORDER, Answer, Phase, extras, read_answer
from hcsfed.flower.post import Post, opened
from hcsfed.flower.roster import Roster
from hcsfed.memory import PROBES, asked, join, meet, needs, note, price, recalled, stale
from hcsfed.record import BYTES_PER_FLOAT, Cost
from hcsfed.select import Selector, answered
from hcsfed.standing import Standing, advance, choose
from hcsfed.stopwatch import Stopwatch
from hcsfed.types import Answers, Floats, Ints, Selection, View
from hcsfed.updates import Updates


@dataclass(eq=False)
class Turn:
    """A round under way.

    Parameters
    ----------
    arrays, config
        The model, and what the app's own config holds.
    notes
        What was heard in this round, by client.
    missing
        Who did not answer, and why.
    asked_all
        Whether everyone was asked for something before the pick.
    share
        What those who can be picked stand for, of those who were there at the beginning.
    """

    desk: Desk
    roster: Roster
    standing: Standing
    post: Post
    arrays: ArrayRecord
    config: ConfigRecord
    cost: Cost = field(default_factory=Cost)
    watch: Stopwatch = field(default_factory=Stopwatch)
    notes: dict[int, Answer] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)
    view: View | None = None
    asked_all: bool = False
    share: float = 1.0
    selector: Selector | None = None
    selection: Selection | None = None
    sent: dict[int, Message] = field(default_factory=dict)

    def begin(self) -> list[Message]:
        """Hear and pick; gives the messages to those who were picked."""
        with self.watch("hear"):
            self.view = self.desk.kit.guard.view(self._hear())
        with self.watch("select"):
            if self.view.available.any():
                self.selector, picked = choose(self.desk, self.standing, self.view, self.desk.settings.seed)
                info = {**picked.info, "share": self.share}
                self.selection = replace(picked, weights=picked.weights * self.share, info=info)
            else:  # nobody was heard of, so there may be nothing to pick by
                self.selector, self.selection = self.desk.selector, nobody(len(self.roster))
        picked = self.selection.ids.tolist()
        contents = {k: self._content(k, self._last(k)) for k in picked}
        self.sent = self.post.letters(contents, self.roster.nodes)
        return list(self.sent.values())

    def end(self, replies: Iterable[Message]) -> tuple[Standing, Selection, Answers]:
        """Take the answers in; gives where the run stands now, and on whose answers."""
        assert self.selector is not None
        assert self.selection is not None
        phases = {k: self._last(k) for k in self.sent}
        found = self._read(*opened(self.sent, replies), {k: self._shapes(k) for k in self.sent}, phases)
        came = np.array([int(k) in found for k in self.selection.ids], bool)
        selection = answered(self.selection, came, self.desk.responses.chances("answer"), floor=self.floor)
        self.desk.responses.learn("answer", self.selection.ids, selection.ids)
        measured = self._answers(found, selection.ids)
        self.cost += self._price(measured)
        if not len(selection):
            return replace(self.standing, round=self.standing.round + 1), selection, measured
        with self.watch("aggregate"):
            answers = self.desk.kit.guard.answers(measured, self.standing.heard)
            estimate = self._estimate(found, selection, answers, measured.norms)
            standing = advance(self.desk, self.standing, self.selector, self.selection, answers, estimate)
        return standing, selection, answers

    @property
    def floor(self) -> float:
        """Least chance that is divided by."""
        return self.desk.settings.reach.floor

    # Before the pick

    def _hear(self) -> View:
        """What is known of those who can be picked; who of all that were asked did not answer is stood for by others
        that answer as rarely.
        """
        view, there = self._heard_of(), self.roster.present()
        if not self.asked_all or not there.any():
            return view
        responses = self.desk.responses
        weights = view.weights / np.maximum(responses.chances("note"), self.floor)
        self.share = float(weights[view.available].sum() / view.weights[there].sum())
        responses.learn("note", np.flatnonzero(there), np.flatnonzero(view.available))
        return replace(view, weights=weights)

    def _heard_of(self) -> View:
        desk, roster, t = self.desk, self.roster, self.standing.round
        wanted = needs(desk)
        view = View(
            sizes=desk.setup.sizes,
            weights=desk.setup.weights,
            available=roster.present(),
            round=t,
            labels=np.stack(roster.labels) if "labels" in wanted else None,
        )
        if "losses" in wanted:
            losses, available = self._ask_all("losses", view.available, 0)
            view = replace(view, available=available, losses=losses)
        if "variances" in wanted:
            variances, available = self._ask_all("variances", view.available, PROBES)
            view = replace(view, available=available, variances=variances)
        if not wanted & {"features", "norms"} and stale(desk):
            return view
        if not stale(desk):
            self.asked_all = True
            available = self._ask_notes("features", np.flatnonzero(view.available), view.available)
            norms, features = self._heard(len(roster))
            return replace(view, available=available, norms=norms, features=features)
        memory = self.standing.heard
        known = np.isfinite(memory["norms"]) if "norms" in memory else np.zeros(len(roster), bool)
        available = view.available
        new = np.flatnonzero(available & ~known)
        if getattr(desk.selector, "unseen", "heard") == "zero":
            meet(memory, self._nothing(np.flatnonzero(~known)), len(roster))
        elif len(new):
            few = getattr(desk.selector, "opening", 0)
            available = self._ask_notes("opening" if few else "features", new, available)
            if self.notes:
                meet(memory, self._answers(self.notes, np.array(sorted(self.notes), np.int64)), len(roster))
            if few:
                self.notes = {}  # nothing of it is kept: who is picked trains
        return recalled(replace(view, available=available), memory)

    def _ask_all(self, phase: Phase, available: NDArray[np.bool_], steps: int) -> tuple[Floats, NDArray[np.bool_]]:
        """One number of each client that is there."""
        ks = np.flatnonzero(available)
        self.asked_all = True
        contents = {int(k): self._content(int(k), phase) for k in ks}
        kind = MessageType.EVALUATE if phase == "losses" else MessageType.TRAIN
        found = self._read(*self.post.ask(contents, self.roster.nodes, kind), {k: {} for k in contents}, phase)
        values = np.full(len(available), np.nan)
        for k, answer in found.items():
            values[k] = answer.value
        self.cost += asked(self.desk, len(ks), floats=0, steps=steps)
        self.cost += Cost(upload_bytes=note(self.desk, floats=1) * len(found))
        return values, available & np.isfinite(values)

    def _ask_notes(self, phase: Phase, ks: Ints, available: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Features and norms of these clients; gives who is still there."""
        desk = self.desk
        contents = {int(k): self._content(int(k), phase) for k in ks}
        shapes = dict.fromkeys(contents, self._note_shapes())
        self.notes = self._read(*self.post.ask(contents, self.roster.nodes), shapes, phase)
        self.roster.learn_sizes({k: answer.examples for k, answer in self.notes.items()})
        silent = np.setdiff1d(ks, list(self.notes))
        few = getattr(desk.selector, "opening", 0) if phase == "opening" else 0
        whole = desk.setup.steps[silent]
        self.cost += asked(desk, len(ks), floats=0)
        self.cost += Cost(
            upload_bytes=note(desk, floats=int("norms" in needs(desk)), width=desk.width) * len(self.notes),
            local_steps=sum(answer.steps for answer in self.notes.values())
            + int(np.minimum(few or whole, whole).sum()),
        )
        self.cost += self._shared(len(ks))
        available = available.copy()
        available[silent] = False
        return available

    def _nothing(self, ks: Ints) -> Answers:
        """Of these clients notes of zeros, for selectors that take who was never heard for that."""
        blank = np.zeros(len(ks))
        features = np.zeros((len(ks), self.desk.width), np.float32)
        return Answers(ks, blank, blank, np.zeros(len(ks), np.int64), None if self.desk.feature is None else features)

    def _heard(self, clients: int) -> tuple[Floats, NDArray[np.float32] | None]:
        norms = np.full(clients, np.nan)
        features = None if self.desk.feature is None else np.full((clients, self.desk.width), np.nan, np.float32)
        for k, answer in self.notes.items():
            norms[k] = answer.norm
            if features is not None:
                features[k] = answer.feature
        return norms, features

    # Messages

    def _content(self, k: int, phase: Phase) -> RecordDict:
        desk, t = self.desk, self.standing.round
        trains = phase in ("features", "full")
        order = desk.order(phase, t, k, self.standing.algorithm if trains else None)
        content = RecordDict({ORDER: order.record()})
        if phase == "upload":
            return content
        content[MODEL] = self.arrays
        content[CONFIG] = ConfigRecord({**dict(self.config), "server-round": t + 1, **desk.hints})
        beside = {"aggregate": self.standing.heard.get("aggregate") if desk.shares_aggregate else None}
        if trains:
            push = desk.algorithm.correction(desk.setup, self.standing.algorithm, np.array([k]))
            beside["correction"] = None if push is None else push[0]
        more = extras(beside)
        if more is not None:
            content[EXTRAS] = more
        return content

    def _shared(self, clients: int) -> Cost:
        """What the last aggregate costs, where features need it: a client may have missed the round before."""
        if not self.desk.shares_aggregate or "aggregate" not in self.standing.heard:
            return Cost()
        return Cost(download_bytes=BYTES_PER_FLOAT * self.desk.setup.dimension * clients)

    def _note_shapes(self) -> dict[str, tuple[int, ...]]:
        return {} if self.desk.feature is None else {"feature": (self.desk.width,)}

    def _shapes(self, k: int) -> dict[str, tuple[int, ...]]:
        """The arrays that client k was asked to send."""
        shapes: dict[str, tuple[int, ...]] = {} if k in self.notes else self._note_shapes()
        for name in ("update", "gradient") if self.desk.gradients else ("update",):
            shapes[name] = (self.desk.setup.dimension,)
        return shapes

    def _last(self, k: int) -> Phase:
        """What the picked are asked for: the update that is kept there, or a new one."""
        return "upload" if k in self.notes else "full"

    def _read(
        self,
        contents: Mapping[int, RecordDict],
        missing: Mapping[int, str],
        shapes: Mapping[int, Any],
        phase: Phase | Mapping[int, Phase],
    ) -> dict[int, Answer]:
        """The answers that hold what was asked for; the others are missing, with the phase and the reason."""
        found: dict[int, Answer] = {}
        left = dict(missing)
        for k, content in contents.items():
            try:
                found[k] = read_answer(content, shapes[k])
            except RefusedError as error:
                left[k] = f"refused: {error}"
        for k, why in left.items():
            self.missing[k] = f"{phase if isinstance(phase, str) else phase[k]}: {why}"
        return found

    # After the answers

    def _answers(self, found: Mapping[int, Answer], ids: Ints) -> Answers:
        """What may be learned from these answers; of a kept update, the note came before."""
        parts = []
        for k in ids.tolist():
            answer, note = found[k], self.notes.get(k, found[k])
            norm = answer.norm if answer.update is None else float(row_norms(answer.update[None])[0])
            feature = None if note.feature is None else note.feature[None]
            steps = answer.steps or int(self.desk.setup.steps[k])
            parts.append(Answers(np.array([k]), np.array([norm]), np.array([answer.loss]), np.array([steps]), feature))
        return join(parts)

    def _estimate(
        self, found: Mapping[int, Answer], selection: Selection, answers: Answers, norms: Floats
    ) -> NDArray[Any]:
        """Of the mean update; who is longer than a guard allows is shortened."""
        assert self.view is not None
        desk, standing = self.desk, self.standing
        desk.algorithm.open(desk.setup, standing.algorithm, standing.parameters, self.view)
        total = desk.estimator.open(desk.setup, standing.estimator, self.view, selection)
        for i, k in enumerate(selection.ids.tolist()):
            at = slice(i, i + 1)
            update = found[k].update
            assert update is not None
            if answers.norms[i] < norms[i]:
                update = update * np.float32(answers.norms[i] / norms[i])
            chunk = Updates(selection.ids[at], update[None], answers.losses[at], answers.steps[at])
            total.add(chunk, selection.weights[at])
            desk.gradient_of = found[k].gradient
            desk.algorithm.learn(desk.setup, standing.algorithm, standing.parameters, chunk, standing.round)
        return np.asarray(total.value())

    def _price(self, answers: Answers) -> Cost:
        """What the picked cost. Who was asked to train counts as having done so, whether an answer came or not."""
        assert self.selection is not None
        held = np.zeros(len(self.roster), bool)
        held[list(self.notes)] = True
        whom = self.selection.ids
        cost = price(self.desk, answers, trained=held, sent=held, whom=whom)
        return cost + self._shared(int((~held[whom]).sum()))


def nobody(clients: int) -> Selection:
    """An empty cohort."""
    return Selection(np.zeros(0, np.int64), np.zeros(0), np.zeros(clients))
