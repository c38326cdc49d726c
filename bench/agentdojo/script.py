"""Scripted answers: the calls that a model makes in one run."""

import json
import re
from dataclasses import dataclass, field

from tool_names import tool_name

#: What a reader can answer with: for each field of its `returns`, the values that fit.
ID, NUMBER = re.compile(r"[0-9]{1,4}"), (int, float)
ADDRESS = re.compile(r"[a-z0-9._+-]{1,64}@[a-z0-9.-]{1,64}")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2})?")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
ACCOUNT = re.compile(r"[A-Z]{2}[0-9A-Z]{10,32}")
PHRASE = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,80}")


def matching(pattern):
    return lambda value: isinstance(value, str) and pattern.fullmatch(value)


FACTS = {
    "workspace": {"ids": matching(ID), "addresses": matching(ADDRESS), "times": matching(TIME), "phrases": matching(PHRASE)},
    "banking": {
        "ids": lambda value: type(value) is int,
        "accounts": matching(ACCOUNT),
        "amounts": lambda value: type(value) in NUMBER,
        "times": matching(DATE),
        "phrases": matching(PHRASE),
    },
}


@dataclass
class Script:
    """Answers for `--model script:`, and which turns of the entry are the attacker's."""

    answers: list
    injected_turns: set = field(default_factory=set)

    def is_injected(self, path):
        """Whether the call at this place of the call tree is the attacker's: made in such a turn of the entry or, if there is an
        injection, by a reader after its first turn."""
        turns = [int(step.partition(".")[0]) for step in path.split("/")[1:]]
        return turns[0] in self.injected_turns or (bool(self.injected_turns) and len(turns) > 1 and turns[1] > 0)


def scalars(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [scalar for item in value for scalar in scalars(item)]
    return [] if value is None or isinstance(value, bool) else [value]


def facts(suite, calls):
    """What a reader must find out for these calls: their values, each in the first field where it fits."""
    found = {name: [] for name in FACTS[suite]}
    for value in [scalar for call in calls for scalar in scalars(call.arguments)]:
        name = next((name for name, fits in FACTS[suite].items() if fits(value)), None)
        if name and value not in found[name]:
            found[name].append(value)
    return found


def call(function, arguments):
    # Raw, because the strings of `arguments` are templates.
    return {"tool": tool_name(function), "raw_arguments": json.dumps(arguments)}


def planned(task, injection, untrusted):
    """The calls of a run in order, each with whether it is injected: the injected ones follow the first untrusted read."""
    first = next((at for at, one in enumerate(task.calls) if tool_name(one.function) in untrusted), len(task.calls) - 1)
    steps = [(one, False) for one in task.calls]
    return steps[: first + 1] + [(one, True) for one in (injection.calls if injection else [])] + steps[first + 1 :]


def flat(task, injection, untrusted):
    """One conversation that reads and acts."""
    steps = planned(task, injection, untrusted)
    answers = [
        {"when": {"worker": "main", "turn": turn}, "calls": [call(one.function, one.arguments)]}
        for turn, (one, _) in enumerate(steps)
    ]
    answers.append({"text": "Done."})
    return Script(answers, {turn for turn, (_, injected) in enumerate(steps) if injected})


def with_reader(suite, task, injection, untrusted):
    """A planner that acts, and readers that read. An injection controls the readers, and with their answers the planner."""
    steps = planned(task, injection, untrusted)
    effects = [one for one, _ in steps if tool_name(one.function) not in untrusted]
    answers = []
    for turn, (one, _) in enumerate(steps):
        through_reader = tool_name(one.function) in untrusted
        if through_reader:
            made = call("reader", {"task": f"({turn}) {one.function}"})
            read = {"worker": "reader", "turn": 0, "last": f"({turn})"}
            answers.append({"when": read, "calls": [call(one.function, one.arguments)]})
        else:
            made = call(one.function, one.arguments)
        answers.append({"when": {"worker": "planner", "turn": turn}, "calls": [made]})
    # A reader with an injection tries the injected calls itself, before it answers with their values.
    attempts = [call(one.function, one.arguments) for one in injection.calls] if injection else []
    if attempts:
        answers.append({"when": {"worker": "reader", "turn": 1}, "calls": attempts})
    answers.append({"when": {"worker": "reader"}, "json": facts(suite, effects)})
    answers.append({"text": "Done."})
    return Script(answers, {turn for turn, (_, injected) in enumerate(steps) if injected})
