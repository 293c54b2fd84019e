"""Programs that a model wrote are run against tests: no program harms the machine or decides its own verdict.

- `server`: a small Python process that forks for every program. It holds no secret, no program and no test.
- `isolation`: what the kernel keeps from a program: files, network, other processes, memory and time.
- `program_process`: the process that runs a program and answers calls of its functions.
- `tests_process`: the process that runs the tests. It has the verdict, and calls the program's functions from outside.
- `remote`: the calls between these two processes, in plain values.
- `supervisor`: in the caller's process, starts the server, bounds it and collects what comes back.
- `judging`: verdicts on programs.
- `code_blocks`: the program in a completion.
"""
