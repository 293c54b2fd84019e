"""Each term of a training process's memory: from the model's shape and the run's layout to bytes, with the source.

Formats are those that TRL 1.16 trains in: it loads weights in float32 (`create_model_from_path`) and computes under
bfloat16 autocast; under ZeRO, DeepSpeed turns the weights into bfloat16 and keeps float32 ones beside them. Terms of
weights, gradients and optimiser are those of Rajbhandari et al., "ZeRO" (2020), section 3; activations are counted as
in Korthikanti et al., "Reducing activation recomputation" (2022), section 4, for a layer of Qwen2 or Llama.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30
#: Numbers that DeepSpeed sends at once, `reduce_bucket_size` by default.
REDUCE_BUCKET = 500_000_000
#: Numbers of weights that ZeRO-3 keeps gathered at most, `stage3_max_live_parameters` by default.
LIVE = 1_000_000_000
#: Of `training/gradients/recorder.py`, which imports torch: bytes of a block, numbers of a parameter that are kept.
BLOCK_BYTES, SUMS = 16 * 2**20, 65_521
#: Tiles of TRL's fused head (`kernels/chunked_logprob.py`): tokens by words.
TILE = (4096, 8192)
#: A token of text comes so often in a micro-batch, at least: a guess, between 1 for noise and some 10 for mathematics.
WORD_REPEATS = 4
#: Not measured: what vLLM's engine needs beside weights and cache.
ENGINE_BYTES = 1.5 * GIB


@dataclass(frozen=True)
class Shape:
    """A dense model of Qwen2's or Llama's kind; `bias`: of queries, keys and values, as Qwen2 has it."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool = True
    bias: bool = True

    @property
    def query(self) -> int:
        """Width of all heads' queries."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Width of all heads' keys, and of their values."""
        return self.kv_heads * self.head_dim

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """The seven weights of a layer by name: units and inputs."""
        hidden, inner = self.hidden, self.intermediate
        return {
            "q": (self.query, hidden),
            "k": (self.key, hidden),
            "v": (self.key, hidden),
            "o": (hidden, self.query),
            "gate": (inner, hidden),
            "up": (inner, hidden),
            "down": (hidden, inner),
        }

    @property
    def of_layer(self) -> int:
        """Numbers of a layer's matrices."""
        return sum(units * inputs for units, inputs in self.matrices.values())

    @property
    def embedding(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def sizes(self) -> list[int]:
        """Numbers of each parameter of the model."""
        biases = [self.query, self.key, self.key] if self.bias else []
        matrices = [units * inputs for units, inputs in self.matrices.values()]
        layer = [*matrices, *biases, self.hidden, self.hidden]
        return layer * self.layers + [self.hidden] + [self.embedding] * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        return sum(self.sizes)


#: Qwen2.5's public config.json files; the numbers of parameters are in the tests.
SHAPES = {
    "0.5B": Shape(896, 24, 14, 2, 64, 4864, 151936),
    "1.5B": Shape(1536, 28, 12, 2, 128, 8960, 151936),
    "3B": Shape(2048, 36, 16, 2, 128, 11008, 151936),
    "7B": Shape(3584, 28, 28, 4, 128, 18944, 152064, tied=False),
}


@dataclass(frozen=True)
class Run:
    """What decides a training process's memory, by the names of the study where there is one.

    Attributes
    ----------
    micro_batch : int
        `per_device_train_batch_size`.
    micro_batches : int
        `gradient_accumulation_steps`: their completions are generated together.
    prompt, completion : int
        Tokens of the longest.
    lora : int
        Rank of adapters of all linear layers; 0: the whole model is trained.
    reference : bool
        Whether there is a KL term (`beta` above 0).
    components : int
        Whose gradients are measured (`measured`), all of them trained on.
    vllm : str
        Where completions come from: "" (transformers), "colocate" or "server".
    vllm_memory : float
        Share of the GPU that colocated vLLM takes.
    """

    micro_batch: int = 8
    micro_batches: int = 1
    prompt: int = 256
    completion: int = 1024
    lora: int = 0
    bf16: bool = True
    checkpointing: bool = True
    reference: bool = False
    components: int = 3
    measured: bool = True
    strategy: str = "ddp"
    processes: int = 1
    vllm: str = ""
    vllm_memory: float = 0.3
    vllm_sleep: bool = False

    @property
    def zero(self) -> bool:
        return self.strategy.startswith("zero")

    @property
    def length(self) -> int:
        return self.prompt + self.completion

    @property
    def tokens(self) -> int:
        """Of a micro-batch."""
        return self.micro_batch * self.length

    @property
    def weight_bytes(self) -> int:
        """Of a number of the weights that are computed with, and of its gradient: TRL's float32; ZeRO's bfloat16."""
        return 2 if self.zero and self.bf16 else 4

    @property
    def compute_bytes(self) -> int:
        """Of a number that autocast computes with."""
        return 2 if self.bf16 else 4

    @property
    def stream_bytes(self) -> int:
        """Of a number between layers: of the weights' format, which embedding and norms have."""
        return self.weight_bytes

    @property
    def slices(self) -> int:
        """Processes that share optimiser and gradients."""
        return self.processes if self.zero else 1


# ---------------------------------------------------------------------- weights, gradients, optimiser


def trained(shape: Shape, run: Run) -> int:
    """Numbers that are trained: all, or two factors of rank r for each of a layer's matrices."""
    if not run.lora:
        return shape.parameters
    return shape.layers * sum(run.lora * sum(matrix) for matrix in shape.matrices.values())


def weights(shape: Shape, run: Run) -> float:
    """Weights, adapters included; ZeRO-3 has a slice of them."""
    numbers = shape.parameters + (trained(shape, run) if run.lora else 0)
    return numbers * run.weight_bytes / (run.processes if run.strategy == "zero3" else 1)


def master_weights(shape: Shape, run: Run) -> float:
    """ZeRO's float32 weights, which the optimiser changes, in slices; also where the others are float32."""
    return 4 * trained(shape, run) / run.processes if run.zero else 0


def optimiser(shape: Shape, run: Run) -> float:
    """Adam's two averages in float32."""
    return 8 * trained(shape, run) / run.slices


def gradients(shape: Shape, run: Run) -> float:
    """Gradients of what is trained, in the weights' format; ZeRO has a slice."""
    return trained(shape, run) * run.weight_bytes / run.slices


def communication(shape: Shape, run: Run) -> float:
    """DDP's buckets, a second copy of all gradients; ZeRO's one bucket."""
    if run.processes == 1:
        return 0
    return (REDUCE_BUCKET if run.zero else trained(shape, run)) * run.weight_bytes


def gathered_weights(shape: Shape, run: Run) -> float:
    """Weights that ZeRO-3 has gathered in the forward or backward pass: of all layers as long as they are few."""
    return min(shape.parameters, LIVE) * run.weight_bytes if run.strategy == "zero3" else 0


def reference_model(shape: Shape, run: Run) -> float:
    """The model as it was, where there is a KL term; adapters are switched off instead."""
    if not run.reference or run.lora:
        return 0
    return weights(shape, run)


# ---------------------------------------------------------------------- the training step


def layer_activations(shape: Shape, run: Run) -> float:
    """What a layer keeps of a micro-batch for its backward pass.

    By token: the inputs of the two norms, and these normalised where norms are trained, in the format between layers;
    inputs of the linear layers, cast once for each of q, k, v, gate and up under autocast, not at all without; queries,
    keys and values (repeated to all heads, where rows are padded) and the attention's output; four of the intermediate
    size; a row of the mask; float32 sums. And the matrices, as autocast has cast them.
    """
    width, stream = run.compute_bytes, run.stream_bytes
    hidden, query, inner = shape.hidden, shape.query, shape.intermediate
    cast = width != stream
    of_token = stream * hidden * (2 if run.lora else 4)
    of_token += width * hidden * (5 if cast else 2)
    of_token += width * (4 * query + 4 * inner + run.length) + 4 * (shape.heads + 2)
    if run.lora:
        of_token += width * (len(shape.matrices) * run.lora + (query if cast else 0))
    copies = width * (shape.of_layer + trained(shape, run) / shape.layers * bool(run.lora)) if cast else 0
    return of_token * run.tokens + copies


def activations(shape: Shape, run: Run) -> float:
    """What all layers keep; with checkpointing each keeps its input, and one has been computed anew."""
    ends = (run.stream_bytes * shape.hidden * (2 if run.lora else 3) + 60) * run.tokens  # final norm, head, tokens
    layer = layer_activations(shape, run)
    if not run.checkpointing:
        return ends + shape.layers * layer
    return ends + shape.layers * run.stream_bytes * shape.hidden * run.tokens + layer


def head(shape: Shape, run: Run) -> float:
    """Log-probabilities and their gradient, in tiles: TRL 1.16 never holds all logits.

    The training gradient of the vocabulary's weight is added up in float32.
    """
    tokens, words = TILE
    tile = min(run.micro_batch * run.completion, tokens) * min(shape.vocabulary, words) * run.compute_bytes
    if run.lora:
        return tile + 4 * run.tokens * shape.hidden
    # By completion (`lm_head.py`): three tiles in float32 of as many words as a block has, and the hidden states.
    block = max(1, BLOCK_BYTES // (4 * shape.hidden * run.micro_batch))
    words = min(shape.vocabulary, block + 256)
    by_completion = run.micro_batch * run.completion * (3 * 4 * words + 3 * 4 * shape.hidden)
    return 4 * shape.embedding + max(tile, by_completion)


def second_embedding(shape: Shape, run: Run) -> float:
    """Gradients of an embedding that is the head's weight too come twice, and are then added up."""
    return shape.embedding * run.weight_bytes if shape.tied and not run.lora else 0


def measurement(shape: Shape, run: Run) -> float:
    """The components' gradients: blocks of rows, and where a step has several micro-batches or processes, sums.

    Of each gradient (alone, as a share, and of the KL term) up to 65,521 numbers of each parameter, of the micro-batch
    and of the step. A KL term takes a backward pass more; until its end the gradients of all layers' outputs are kept.
    """
    if not run.measured:
        return 0
    total: float = 3 * BLOCK_BYTES * run.compute_bytes / 2  # rows, these with signs, and their sums
    if run.processes * run.micro_batches > 1:
        if run.lora:
            sizes = [run.lora * side for matrix in shape.matrices.values() for side in matrix] * shape.layers
        else:
            sizes = shape.sizes
        total += 2 * 4 * sum(min(size, SUMS) for size in sizes) * (2 * run.components + run.reference)
    if run.reference:
        outputs = sum(units for units, _ in shape.matrices.values())
        total += shape.layers * run.tokens * outputs * run.compute_bytes
    return total


def words_that_occur(shape: Shape, run: Run) -> float:
    """Of a head that shares its weight with the embedding: gradients of the logits of the batch's own words."""
    if not run.measured or run.lora or not shape.tied:
        return 0
    return run.micro_batch * run.completion * min(run.tokens, shape.vocabulary) * run.compute_bytes / WORD_REPEATS


# ---------------------------------------------------------------------- generation


def key_value_cache(shape: Shape, run: Run) -> float:
    """Of transformers' generation, all completions of a step at once: keys are in float32 where weights are."""
    if run.vllm:
        return 0
    of_token = shape.layers * shape.key * (run.stream_bytes + run.compute_bytes)
    return of_token * run.micro_batch * run.micro_batches * run.length


def sampling(shape: Shape, run: Run) -> float:
    """Logits of one token of each completion, in float32, with what softmax and sampling make of them."""
    return 0 if run.vllm else 4 * 4 * shape.vocabulary * run.micro_batch * run.micro_batches


def engine_cache(shape: Shape, run: Run, card: float, tensor_parallel: int = 1) -> float:
    """Tokens for which vLLM has a place in its key-value cache, of a card of so many bytes.

    Its share of the GPU, less the weights in bfloat16 and what the engine needs beside; below 0 it does not start.
    """
    room = card * run.vllm_memory - 2 * shape.parameters / tensor_parallel - ENGINE_BYTES
    return room / (2 * 2 * shape.layers * shape.key / tensor_parallel)
