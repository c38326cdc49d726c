"""A project with a given number of workers, for measurements."""


def project(place, workers):
    """Workers with a typed signature, a template that uses it, and two callees each."""
    (place / "workers").mkdir(parents=True)
    (place / "main.worker").write_text("---\nmodel: openai:x\nallow_workers: ['*']\n---\nYou delegate.\n")
    (place / "project.yaml").write_text("name: large\ndelegation: {max_depth: 100000}\n")
    for n in range(1, workers + 1):
        callees = ", ".join(f"w{m:05}" for m in (n + 1, n + 7) if m <= workers)
        (place / "workers" / f"w{n:05}.worker").write_text(
            f"---\ndescription: Worker {n}.\nmodel: openai:x\nparameters: {{topic: string, count: integer?}}\n"
            f"returns: {{summary: string}}\nlimits: {{max_turns: 5}}\nallow_workers: [{callees}]\n---\n"
            f"You are worker {n}. Write about {{{{ topic }}}}, {{{{ count }}}} times.\n"
        )
