"""hcsfed picks, pfl-research trains: two places to plug in, the sampler of users and the weights of their updates.

python app.py [SELECTOR ...]
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.postprocessor.base import Postprocessor

from hcsfed.data import load
from hcsfed.select import Picker

USERS, COHORT, ROUNDS = 100, 10, 30


class Picked(Postprocessor):
    """Hands out the users that were picked, one by one as pfl asks for them, and weighs what they send."""

    def __init__(self, picker: Picker, features: np.ndarray, sizes: np.ndarray) -> None:
        self.picker, self.features, self.sizes = picker, features, sizes
        self.weights: dict[int, float] = {}
        self.queue: list[int] = []

    def next_user(self) -> int:
        if not self.queue:
            self.weights = self.picker.select(range(len(self.sizes)), self.features, sizes=self.sizes)
            self.queue = list(self.weights)
        return self.queue.pop(0)

    def postprocess_one_user(self, *, stats, user_context):
        stats.reweight(self.weights[user_context.user_id])
        return stats, Metrics()


class WeightedSum(FederatedAveraging):
    """Federated averaging that does not divide by the sum of the weights: these are the selection's own."""

    def process_aggregated_statistics(self, central_context, aggregate_metrics, model, statistics):
        return model.apply_model_update(statistics)


class Logistic(torch.nn.Module):
    """The model, with the two methods that pfl asks for."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(inputs, classes)
        torch.nn.init.zeros_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.layer(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        return {"right": Weighted(int((self.layer(x).argmax(1) == y).sum()), len(y))}


class Judge(TrainingProcessCallback):
    """Accuracy on the test rows after each round."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y, self.accuracies = x, y, []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.accuracies.append(model.pytorch_model.metrics(self.x, self.y)["right"].overall_value)
        return False, Metrics()


def run(selector: str, seed: int = 0) -> list[float]:
    """Test accuracies of one run; clients hold two kinds of digits each."""
    federation = load(
        "digits", clients=USERS, seed=seed, partition="shard", partition_options={"classes_per_client": 2}
    )

    def tensors(x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.tensor(x).float() * federation.scale + federation.shift
        return rows.flatten(1), torch.tensor(y).long()

    users = [PyTorchTensorDataset(tensors(*federation.client(k)), user_id=k) for k in range(USERS)]
    shares = federation.class_counts / federation.class_counts.sum(axis=1, keepdims=True)
    picked = Picked(Picker(selector, cohort=COHORT, seed=seed), shares, federation.sizes)
    dataset = FederatedDataset(users.__getitem__, picked.next_user)
    x, y = tensors(federation.test_x, federation.test_y)
    module, judge = Logistic(x.shape[1], federation.classes), Judge(x, y)
    WeightedSum().run(
        NNAlgorithmParams(ROUNDS, evaluation_frequency=10**9, train_cohort_size=COHORT, val_cohort_size=None),
        SimulatedBackend(training_data=dataset, val_data=dataset, postprocessors=[picked]),
        PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        NNTrainHyperParams(local_batch_size=5, local_num_epochs=5, local_learning_rate=0.05),
        callbacks=[judge],
    )
    return judge.accuracies


def main() -> None:
    for selector in sys.argv[1:] or ["random", "cube"]:
        runs = np.array([run(selector, seed) for seed in range(3)])
        tenth = ", ".join(f"{accuracy:.3f}" for accuracy in runs.mean(axis=0)[9::10])
        print(f"{selector}: mean test accuracy after rounds 10, 20, 30: {tenth}")


if __name__ == "__main__":
    main()
