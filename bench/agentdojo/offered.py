"""Offers functions of an AgentDojo suite as tools, on the environment in environment.json.

The runner copies this file and tool_names.py beside the `tools.py` of each program. The environment lives as long as the process of the tools: one
run.
"""

import inspect
import json
from pathlib import Path

from agentdojo.functions_runtime import make_function
from tool_names import tool_name

#: A line of a tool's output with this key says that the function has run, and with which arguments.
RAN = "agentdojo_ran"


def load(**parts):
    """The parts of the environment, each as an object of its class."""
    data = json.loads((Path(__file__).parent / "environment.json").read_text())
    return {name: kind.model_validate(data[name]) for name, kind in parts.items()}


def offer(agent, environment, functions, **options):
    """Registers functions with the options of `@tool`. The parts of the environment that they take are no parameters of the tools."""
    for function in functions:
        agent.tool_plain(on(environment, function), name=tool_name(function.__name__), **options)


def on(environment, function):
    """The function on the environment. It prints what it does before it does it: this is what the runner counts as an effect."""
    parts = {name: part.env_dependency for name, part in make_function(function).dependencies.items()}

    def tool(**arguments):
        print(json.dumps({RAN: function.__name__, "arguments": arguments}))
        return function(**arguments, **{name: environment[part] for name, part in parts.items()})

    signature = inspect.signature(function)
    parameters = [parameter for name, parameter in signature.parameters.items() if name not in parts]
    tool.__name__ = tool.__qualname__ = function.__name__
    tool.__doc__ = function.__doc__
    tool.__signature__ = signature.replace(parameters=parameters)
    return tool
