"""Settings → what a server needs of the things that they name. Without PyTorch: a server that only picks has none."""

from __future__ import annotations

from hcsfed.aggregate import ESTIMATORS, Algorithm, Estimator
from hcsfed.features import FEATURES, Feature
from hcsfed.select import Selector
from hcsfed.settings import Settings


def build_estimator(settings: Settings, selector: Selector) -> Estimator:
    """What is made of the answers: as the settings say, else as the selector does."""
    named = settings.estimator.name != "default"
    name = settings.estimator.name if named else getattr(selector, "estimator", "weighted")
    return ESTIMATORS.build(name, **settings.estimator.options)


def build_feature(settings: Settings, selector: Selector, *others: Estimator | Algorithm) -> Feature | None:
    """How clients are compared: as the settings say, else as the selector does; None where nobody compares them."""
    choice = feature_choice(settings, selector, *others)
    return None if choice is None else FEATURES.build(choice, **settings.features.options)


def feature_choice(settings: Settings, selector: Selector, *others: Estimator | Algorithm) -> str | None:
    """The name of the feature by which clients are compared, if they are."""
    if "features" in selector.claims.needs:
        default = getattr(selector, "features", "raw")
    elif any(other.compares for other in others):
        default = "sketch"
    else:
        return None
    return settings.features.name if settings.features.name != "default" else default
