"""Answers of a model by vLLM and by transformers, as JSON: python evaluating.py MODEL BASE OUTPUT."""

import json
import sys
from pathlib import Path


def main() -> None:
    from reward_ablation.config.sections.evaluation import Evaluation
    from reward_ablation.evaluation.generate import VllmGenerator, find_end_tokens, generate_transformers
    from reward_ablation.evaluation.requests import list_requests
    from reward_ablation.models.load import load_model
    from reward_ablation.sampling.tokenizer import load_tokenizer

    folder, base, output = map(Path, sys.argv[1:])
    tokenizer = load_tokenizer(base)
    evaluation = Evaluation(answer_format="hash", greedy=True, samples=2, max_new_tokens=16)
    questions = [f"Tom has {n} apples and eats {n // 2}. How many are left?\n" for n in range(2, 22)]
    prompts = tokenizer(questions)["input_ids"]
    requests = list_requests(map(str, range(20)), prompts, evaluation)
    ends = find_end_tokens(base, tokenizer)
    longest = max(map(len, prompts))
    by_vllm = VllmGenerator(evaluation, base, "float32", longest)(requests, folder, ends)
    model = load_model(folder, "float32", base)
    by_transformers = generate_transformers(requests, model, ends, tokenizer.pad_token_id, evaluation)
    both = [[completion.ids for completion in answers] for answers in (by_vllm, by_transformers)]
    answers = {"modes": [request.mode for request in requests], "vllm": both[0], "transformers": both[1]}
    output.write_text(json.dumps(answers))


if __name__ == "__main__":  # vLLM starts its engine by importing this file again
    main()
