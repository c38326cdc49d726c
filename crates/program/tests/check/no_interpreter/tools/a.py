# no interpreter
