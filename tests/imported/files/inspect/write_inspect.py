"""Logs of a made-up task, written by inspect-ai with its mock model: `sums.eval`, and one epoch as `sums.json`."""

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, match, mean, scorer
from inspect_ai.solver import generate

TEXTS = ["It is 5", "A cat has 4", "No idea?", "4"]


@scorer(metrics=[mean()])
def brevity():
    async def score(state, target):
        if "?" in state.output.completion:
            return Score.unscored(explanation="asks back")
        return Score(value=1.0 / len(state.output.completion.split()))

    return score


def run(epochs):
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in TEXTS]
    for output in outputs:  # otherwise the mock model counts tokens, for which it downloads a tokenizer
        output.usage = ModelUsage(input_tokens=5, output_tokens=3, total_tokens=8)
    samples = [
        Sample(id="two-three", input="What is 2 + 3?", target="5"),
        Sample(id="cat", input="How many legs has a cat?", target="4", metadata={"subject": "animals", "level": 1}),
    ]
    task = Task(samples, solver=generate(), scorer=[match(numeric=True), brevity()], name="sums")
    model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
    return eval(task, model=model, epochs=epochs, temperature=0.7, log_dir="logs", max_connections=1, display="none")[0]


write_eval_log(run(2), "sums.eval")
log = run(1)
for sample in log.samples:  # the events are most of a log
    sample.events, sample.events_data = [], None
write_eval_log(log, "sums.json")
