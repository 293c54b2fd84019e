"""The demo model (`source: demo`): a tiny Qwen2-style model and tokenizer, made and warm-started on one CPU thread.

`fetch` builds it where other models are downloaded or copied. It is real in everything but size: a byte-level BPE
tokenizer, a Qwen2 config, supervised learning from worked solutions. Its teacher is deliberately sloppy
(`demo_teacher`), which leaves reinforcement learning something to do.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reward_ablation.config.sections.model import DemoModel
from reward_ablation.models.demo_teacher import examples

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

#: What the warm start puts before a completion. The prompt template of a study with this model must be the same.
PROMPT = "{question}\n"
END, PAD, UNKNOWN = "<|end|>", "<|pad|>", "<|unknown|>"

CONTEXT = 256  # longest text in tokens, prompt and completion
BATCH_SIZE = 32
#: Number of batches that are drawn at once and sorted by length.
POOL = 16
#: With half this rate, or with torch's beta2 of 0.999, the second steps of solutions have a third more wrong results.
LEARNING_RATE = 1e-2
BETAS = (0.9, 0.98)
#: Number of examples that train the tokenizer, which is the same for all seeds: they have all words many times.
TOKENIZER_EXAMPLES = 2000


def build(spec: DemoModel, folder: Path) -> None:
    """Make the tokenizer, warm-start the model, and save both; the same spec gives the same bytes on one machine."""
    import torch

    tokenizer = build_tokenizer()
    pairs = [(PROMPT.format(question=question), solution) for question, solution in examples(spec.samples, spec.seed)]
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        model = build_model(tokenizer)
        warm_start(model, tokenizer, pairs, spec.steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer: each of the teacher's words, and each number up to 99, is one token."""
    # Numbers are tokens as the teacher writes them, after a blank. Printable ASCII survives the round trip. It must be
    # loaded by `sampling.tokenizer`: AutoTokenizer would see a qwen2 config and use Qwen's pre-tokenizer, which splits
    # numbers.
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # All 256 bytes would make the vocabulary half as large again, and with it the part of each step that depends on it.
    alphabet = list("".join(part for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str(string.printable)))
    trainer = trainers.BpeTrainer(
        vocab_size=2000,  # more than the number of words: training ends when nothing is left to merge
        special_tokens=[PAD, END, UNKNOWN],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    numbers = [f" {number}" for number in range(100)]
    texts = [PROMPT.format(question=question) + solution for question, solution in examples(TOKENIZER_EXAMPLES, seed=0)]
    tokenizer.train_from_iterator([*numbers, *texts], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        padding_side="left",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Initialise the model from torch's random state: 130 thousand parameters, so that a CPU trains it in minutes."""
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    tokens = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        initializer_range=0.1,  # the usual 0.02 is for wide models; here it would cost hundreds of steps
        **tokens,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(**tokens)
    return model


def warm_start(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, pairs: list[tuple[str, str]], steps: int
) -> None:
    """Supervised learning of the completions and the end token, in place; the loss leaves out the prompts."""
    # A step is one batch. The learning rate rises during the first twentieth of the steps, then falls linearly to zero.
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS)
    rise = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / rise, 1 - step / steps))
    model.train()
    for step, (tokens, labels) in zip(range(1, steps + 1), _batches(tokenizer, pairs), strict=False):
        loss = model(input_ids=tokens, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0 or step == steps:
            print(f"warm start: step {step} of {steps}, loss {loss.item():.3f}", flush=True)
    model.eval()


def _batches(
    tokenizer: PreTrainedTokenizerFast, pairs: list[tuple[str, str]]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield (batch, length) token ids and labels without end, padded on the right; torch's loss leaves out -100."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    prompts = tokenizer([prompt for prompt, _ in pairs])["input_ids"]
    completions = tokenizer([completion + END for _, completion in pairs])["input_ids"]
    rows = [torch.tensor(prompt + completion) for prompt, completion in zip(prompts, completions, strict=True)]
    lengths = torch.tensor([len(row) for row in rows])
    while True:
        # Rows of similar length share a batch: otherwise padding would be a third of the work.
        pool = torch.randint(len(rows), (POOL * BATCH_SIZE,))
        by_length = pool[lengths[pool].argsort(stable=True)].split(BATCH_SIZE)
        for place in torch.randperm(POOL):
            chosen = by_length[place].tolist()
            # A causal model does not see tokens further right, so this padding needs no attention mask.
            tokens = pad_sequence([rows[index] for index in chosen], True, tokenizer.pad_token_id)
            labels = pad_sequence([rows[index] for index in chosen], True, -100)
            for label, index in zip(labels, chosen, strict=True):
                label[: len(prompts[index])] = -100
            yield tokens, labels


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: another order of sums gives other bytes, and at this size threads cost more than they save."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
