#!/usr/bin/env python3
"""Lets Optuna's TPE sampler say what `farcall tune` screens (docs/tuning.md describes the lines).

In a space: [search] strategy = "proposer", proposer = ["python3", "optuna_proposer.py"]. Needs Python's `optuna`.
"""

import json
import sys

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def main():
    study = waiting = parameters = metric = None
    for line in sys.stdin:
        message = json.loads(line)
        if "begin" in message:
            begin = message["begin"]
            parameters = begin["parameters"]
            metric = begin["metrics"][0]
            direction = "minimize" if metric["goal"] == "min" else "maximize"
            sampler = optuna.samplers.TPESampler(seed=begin["seed"], constant_liar=True)
            study = optuna.create_study(direction=direction, sampler=sampler)
            waiting = {}
        elif "ask" in message:
            proposals = []
            for _ in range(message["ask"]):
                trial = study.ask()
                row = {}
                for parameter in parameters:
                    place = suggest(trial, parameter)
                    row[parameter["name"]] = parameter["values"][place]
                waiting[key(row)] = trial
                proposals.append(row)
            print(json.dumps({"propose": proposals}), flush=True)
        elif "tell" in message:
            for sample in message["tell"]:
                tell(study, waiting, parameters, metric, sample)


def suggest(trial, parameter):
    """The place of a value in the list; only places of ordered values are near each other."""
    count = len(parameter["values"])
    if parameter["ordered"]:
        return trial.suggest_int(parameter["name"], 0, count - 1)
    return trial.suggest_categorical(parameter["name"], list(range(count)))


def distribution(parameter):
    count = len(parameter["values"])
    if parameter["ordered"]:
        return optuna.distributions.IntDistribution(0, count - 1)
    return optuna.distributions.CategoricalDistribution(list(range(count)))


def tell(study, waiting, parameters, metric, sample):
    """Rows that were made valid differ from what was proposed, and are told as trials of their own."""
    row = sample["values"]
    trial = waiting.pop(key(row), None)
    if sample.get("failed"):
        if trial is not None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return
    figures = sample["metrics"][metric["name"]]
    figure = figures["relative"] if figures["relative"] is not None else figures["value"]
    if trial is not None:
        study.tell(trial, figure)
        return
    places = {p["name"]: p["values"].index(row[p["name"]]) for p in parameters if p["name"] in row}
    ranges = {p["name"]: distribution(p) for p in parameters if p["name"] in places}
    study.add_trial(optuna.trial.create_trial(params=places, distributions=ranges, value=figure))


def key(row):
    return json.dumps(row, sort_keys=True)


main()
