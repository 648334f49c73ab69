"""Settings → what a server needs of the things that they name. Without PyTorch: a server that only picks has none."""

from __future__ import annotations

from hcsfed.aggregate import ESTIMATORS, Algorithm, Estimator
from hcsfed.errors import bad
from hcsfed.features import FEATURES, Feature, Noisy
from hcsfed.select import Selector
from hcsfed.settings import Settings


def build_estimator(settings: Settings, selector: Selector) -> Estimator:
    """What is made of the answers: as the settings say, else as the selector does."""
    named = settings.estimator.name != "default"
    name = settings.estimator.name if named else getattr(selector, "estimator", "weighted")
    return ESTIMATORS.build(name, **settings.estimator.options)


def build_feature(settings: Settings, selector: Selector, *others: Estimator | Algorithm) -> Feature | None:
    """How clients are compared: as the settings say, else as the selector does; None where nobody compares them."""
    choice, private = feature_choice(settings, selector, *others), settings.privacy
    if choice is None:
        if private.noise:
            remedy = f"{selector.name} compares none"
            raise bad("privacy.noise", "run", "0 where clients send no features", private.noise, remedy)
        return None
    feature = FEATURES.build(choice, **settings.features.options)
    return Noisy(feature, private.clip, private.noise) if private.noise else feature


def feature_choice(settings: Settings, selector: Selector, *others: Estimator | Algorithm) -> str | None:
    """The name of the feature by which clients are compared, if they are."""
    if "features" in selector.claims.needs:
        default = getattr(selector, "features", "raw")
    elif any(other.compares for other in others):
        default = "sketch"
    else:
        return None
    return settings.features.name if settings.features.name != "default" else default
