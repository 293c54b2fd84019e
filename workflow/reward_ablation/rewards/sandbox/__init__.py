"""A sandbox where programs that a model wrote run against tests. They read no file of the user and decide no verdict.

The component `unit_tests` is its one user: it calls `judging`, which calls `supervisor`, which starts `server`.

- `server`: a small Python process that forks for every program. It holds no secret, no program and no test.
- `isolation`: the limits that the kernel sets for a program: files, network, other processes, memory and time.
- `processes`: the process that runs a program, and the process that runs the tests, which has the verdict and calls the
  program's functions from outside.
- `remote`: the calls between these two processes, in plain values.
- `supervisor`: runs in the caller's process. It starts the server, limits it and collects the results.
- `judging`: verdicts on programs.
"""
