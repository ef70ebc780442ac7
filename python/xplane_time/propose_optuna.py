"""A proposer that uses Optuna's tree-structured Parzen estimator (TPE), with a seed.

  $ pip install 'xplane-time[optuna]'
  $ xplane-time tune space.json --strategy ask:100 \\
    --proposer 'python -m xplane_time.propose_optuna' -- HARNESS

Numbers are ordered, texts are not. Failed and refused configurations count as infeasible, so that
Optuna avoids them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from xplane_time.errors import ArgumentError
from xplane_time.propose import Ask, Params, Result, Space, Tell, serve

__all__ = ["start"]

_FAILED = "failed"


def start(space: Space) -> tuple[Ask, Tell]:
    """See xplane_time.propose.serve."""
    try:
        import optuna
    except ImportError:
        raise ArgumentError(
            "INVALID_ARGUMENT", "Optuna is not installed: pip install 'xplane-time[optuna]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)

    def constraints(trial: optuna.trial.FrozenTrial) -> Sequence[float]:
        return (1.0 if trial.user_attrs.get(_FAILED) else 0.0,)

    sampler = optuna.samplers.TPESampler(
        seed=(space.seed + space.told) % 2**32, multivariate=True, constant_liar=True,
        constraints_func=constraints)
    study = optuna.create_study(sampler=sampler)
    distributions: dict[str, optuna.distributions.BaseDistribution] = {}
    ordered: dict[str, list[float]] = {}  # numbers only
    for parameter in space.parameters:
        if parameter.type in ("int", "float"):
            ordered[parameter.name] = sorted(parameter.values)
            distributions[parameter.name] = optuna.distributions.IntDistribution(
                0, len(parameter.values) - 1)
        else:
            distributions[parameter.name] = optuna.distributions.CategoricalDistribution(
                parameter.values)
    trials: list[optuna.trial.Trial] = []

    def ask(count: int) -> list[Params]:
        fresh = [study.ask(distributions) for _ in range(count)]
        trials.extend(fresh)
        return [{name: ordered[name][value] if name in ordered else value
                 for name, value in trial.params.items()} for trial in fresh]

    def tell(result: Result) -> None:
        if result.proposal is not None:
            trial = trials[result.proposal]
        elif _fits(space, result.params):
            study.enqueue_trial({name: ordered[name].index(value) if name in ordered else value
                                 for name, value in result.params.items()})
            trial = study.ask(distributions)
        else:
            return  # listed, but not a point of the space
        failed = result.value is None
        trial.set_user_attr(_FAILED, failed)
        study.tell(trial, math.inf if result.value is None else result.value)

    return ask, tell


def _fits(space: Space, params: Params) -> bool:
    return len(params) == len(space.parameters) and all(
        params.get(each.name) in each.values for each in space.parameters)


if __name__ == "__main__":
    serve(start)
