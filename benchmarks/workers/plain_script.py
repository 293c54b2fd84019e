"""What a user would write instead of this workflow: the demo's study as a script over TRL, in one process.

    python benchmarks/workers/plain_script.py STUDY.json RESULTS FOLDER [--gradients]

It imports nothing of this library. It trains each arm and seed with a bare GRPOTrainer, keeps the models that the study
keeps, answers the test problems with all of them, and prints CPU seconds of its parts as JSON. `--gradients` adds what
a user would write to compare the rewards' gradients: one more pass through the model for each reward and step.
"""

import json
import re
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

STARTED = time.process_time()
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def last_number(text):
    found = NUMBER.findall(text.replace(",", ""))
    return float(found[-1]) if found else None


def correctness(completions, answer, **_):
    return [float(last_number(text) == float(gold)) for text, gold in zip(completions, answer, strict=True)]


def form(completions, **_):
    return [
        float(bool(re.search(r"(?:^|\n)#### -?[\d.,]+\s*$", text)) and text.count("####") == 1) for text in completions
    ]


def length(completion_ids, **_):
    return [max(0.0, 1 - abs(len(ids) - 14) / 14) for ids in completion_ids]


REWARDS = {"correctness": correctness, "format": form, "length": length}


class WithGradients(GRPOTrainer):
    """Takes the gradient of each reward alone at each step, and the cosines of all pairs."""

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        texts = self.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
        lengths = batch["completion_mask"].sum(1).tolist()
        golds = [row["answer"] for row in inputs]
        self.batch = batch
        of_rewards = [correctness(texts, golds), form(texts), length([range(int(n)) for n in lengths])]
        self.alone = []
        for scores in of_rewards:
            groups = torch.tensor(scores).view(-1, self.args.num_generations)
            scaled = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
            self.alone.append(scaled.flatten())
        return batch

    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = super().training_step(model, inputs, num_items_in_batch)
        own = [None if part.grad is None else part.grad.clone() for part in model.parameters()]
        flat = []
        for advantages in self.alone:
            model.zero_grad()
            self._compute_loss(model, {**self.batch, "advantages": advantages}).backward()
            flat.append(torch.cat([part.grad.flatten() for part in model.parameters() if part.grad is not None]))
        for part, gradient in zip(model.parameters(), own, strict=True):
            part.grad = gradient
        self.cosines = torch.corrcoef(torch.stack(flat)).tolist()
        return loss


class Keep(TrainerCallback):
    """Keeps the models of some steps for the evaluation."""

    def __init__(self, every):
        self.every, self.kept = every, []

    def on_step_end(self, args, state, control, model=None, **_):
        if self.every and state.global_step % self.every == 0 and state.global_step < state.max_steps:
            self.kept.append({name: part.clone() for name, part in model.state_dict().items()})


def evaluate(model, tokenizer, problems, samples, batch=400):
    model.eval()
    prompts = [f"{row['question']}\n" for row in problems]
    right = 0
    for rows, settings in (
        (prompts, {"do_sample": False}),
        (prompts * samples, {"do_sample": True, "temperature": 1.0}),
    ):
        golds = [float(row["answer"]) for row in problems] * (len(rows) // len(problems))
        for first in range(0, len(rows), batch):
            tokens = tokenizer(rows[first : first + batch], return_tensors="pt", padding=True, padding_side="left")
            with torch.no_grad():
                found = model.generate(**tokens, max_new_tokens=48, **settings)
            texts = tokenizer.batch_decode(found[:, tokens["input_ids"].size(1) :], skip_special_tokens=True)
            right += sum(last_number(text) == gold for text, gold in zip(texts, golds[first:], strict=False))
    return right


def main():
    study, results, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    base = next((results / "models").glob("base-*"))
    tokenizer = AutoTokenizer.from_pretrained(base)
    training = pq.read_table(results / study["inputs"]["problems"]).to_pylist()
    rows = Dataset.from_list([{"prompt": f"{row['question']}\n", "answer": row["answer"]} for row in training])
    [questions] = study["questions"].values()
    problems = pq.read_table(results / questions).to_pylist()
    seconds = {"imports": STARTED, "training": 0.0, "evaluation": 0.0}
    trainer_class = WithGradients if "--gradients" in sys.argv else GRPOTrainer
    for run in {run["folder"]: run for run in study["runs"]}.values():
        spec, begin, keep = run["spec"], time.process_time(), Keep(study["keep_models"])
        names = [name for name in REWARDS if spec["weights"][name]] if trainer_class is GRPOTrainer else [*REWARDS]
        settings = GRPOConfig(
            output_dir=str(folder / run["folder"]),
            seed=run["seed"],
            reward_weights=[spec["weights"][name] for name in names],
            use_cpu=True,
            report_to="none",
            logging_steps=1,
            **spec["training"],
        )
        model = AutoModelForCausalLM.from_pretrained(base)
        trainer = trainer_class(
            model=model,
            args=settings,
            reward_funcs=[REWARDS[name] for name in names],
            train_dataset=rows,
            processing_class=tokenizer,
            callbacks=[keep],
        )
        trainer.train()
        trainer.save_model(folder / run["folder"] / "model")
        seconds["training"] += time.process_time() - begin
        begin = time.process_time()
        for state in [*keep.kept, model.state_dict()]:
            model.load_state_dict({name: part.clone() for name, part in state.items()})
            evaluate(model, tokenizer, problems, samples=4)
        seconds["evaluation"] += time.process_time() - begin
    begin = time.process_time()
    evaluate(AutoModelForCausalLM.from_pretrained(base), tokenizer, problems, samples=4)
    seconds["evaluation"] += time.process_time() - begin
    print("\n" + json.dumps(seconds))


if __name__ == "__main__":
    main()
