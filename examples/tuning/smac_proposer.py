#!/usr/bin/env python3
"""Lets SMAC3's random forest say what `farcall tune` screens (docs/tuning.md describes the lines).

In a space: [search] strategy = "proposer", proposer = ["python3", "smac_proposer.py"]. Needs Python's `smac`.
"""

import json
import logging
import sys
import tempfile

from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, UniformIntegerHyperparameter
from smac import HyperparameterOptimizationFacade as Facade
from smac import Scenario
from smac.acquisition.maximizer.random_search import RandomSearch
from smac.runhistory import StatusType, TrialValue

# More trials than anything here takes: SMAC plans its first design by it, `farcall tune` ends the search.
TRIALS = 10_000

# Candidates of which the acquisition function takes the best, and how often a row that was asked for may come
# up again: spaces of the size that is tuned have few rows beside SMAC's 10,000 and 16.
CANDIDATES = 1_000
RETRIES = 10_000

# What a row that fails is said to cost, beside figures over the reference's.
FAILED = 1e3


class Candidates(RandomSearch):
    """Random rows, the best of the acquisition function first. SMAC's local search beside it asks the forest
    row by row, for a minute at a time; in a space of few rows there is nothing left for it to find."""

    def _maximize(self, previous_configs, n_points, _sorted=True):
        return super()._maximize(previous_configs, n_points, _sorted=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        smac = parameters = metric = None
        waiting = {}
        for line in sys.stdin:
            message = json.loads(line)
            if "begin" in message:
                parameters = message["begin"]["parameters"]
                metric = message["begin"]["metrics"][0]
                smac = begin(message["begin"], folder)
            elif "ask" in message:
                proposals = []
                for _ in range(message["ask"]):
                    info = smac.ask()
                    row = {p["name"]: p["values"][int(info.config[p["name"]])] for p in parameters}
                    waiting.setdefault(key(row), []).append(info)
                    proposals.append(row)
                print(json.dumps({"propose": proposals}), flush=True)
            elif "tell" in message:
                for sample in message["tell"]:
                    # All that SMAC asked for of this row is answered; other rows are no answers.
                    for info in waiting.pop(key(sample["values"]), []):
                        smac.tell(info, found(metric, sample), save=False)


def begin(begin, folder):
    space = ConfigurationSpace(seed=begin["seed"])
    space.add([hyperparameter(p) for p in begin["parameters"]])
    scenario = Scenario(space, n_trials=TRIALS, seed=begin["seed"], output_directory=folder)
    arguments = {
        "initial_design": Facade.get_initial_design(scenario, n_configs=4 * len(begin["parameters"])),
        "acquisition_maximizer": Candidates(space, challengers=CANDIDATES, seed=begin["seed"]),
        "config_selector": Facade.get_config_selector(scenario, retries=RETRIES),
        "logging_level": logging.ERROR,
    }
    return Facade(scenario, lambda config, seed=0: 0.0, overwrite=True, **arguments)


def hyperparameter(parameter):
    """The place of a value in the list; only places of ordered values are near each other."""
    last = len(parameter["values"]) - 1
    if last == 0 or not parameter["ordered"]:
        return CategoricalHyperparameter(parameter["name"], list(range(last + 1)))
    return UniformIntegerHyperparameter(parameter["name"], 0, last, default_value=parameter["default"])


def found(metric, sample):
    if sample.get("failed"):
        return TrialValue(cost=FAILED, status=StatusType.CRASHED)
    figures = sample["metrics"][metric["name"]]
    cost = figures["relative"] if figures["relative"] is not None else figures["value"]
    return TrialValue(cost=cost if metric["goal"] == "min" else 1 / cost)


def key(row):
    return json.dumps(row, sort_keys=True)


main()
