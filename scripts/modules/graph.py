"""Graphs: a dict from each node to the set of nodes it depends on."""


def components(graph):
    """The strongly connected components, each sorted, dependencies before what depends on them (Tarjan's algorithm)."""
    index, lowest, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            at = stack.index(node)
            found.append(tuple(sorted(stack[at:])))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def condensed(graph):
    """The graph of the components: each is one node, and there are no cycles left."""
    member_of = {node: component for component in components(graph) for node in component}
    result = {component: set() for component in member_of.values()}
    for node, others in graph.items():
        result[member_of[node]] |= {member_of[other] for other in others} - {member_of[node]}
    return result


def reduced(graph):
    """The acyclic graph without the edges that follow from others."""
    reach = {}

    def reachable(node):
        if node not in reach:
            reach[node] = set(graph[node]).union(*(reachable(other) for other in graph[node]))
        return reach[node]

    return {
        node: {other for other in others if not any(other in reachable(between) for between in others - {other})}
        for node, others in graph.items()
    }
