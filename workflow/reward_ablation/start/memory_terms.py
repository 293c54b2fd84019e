"""Each term of a training process's GPU memory, in bytes, from the model's shape and the run's layout.

TRL 1.16 loads weights in float32 and computes under bfloat16 autocast. Under ZeRO, DeepSpeed converts the weights to
bfloat16 and keeps a float32 copy. Weights, gradients and optimiser are counted as in Rajbhandari et al., "ZeRO" (2020),
section 3; activations as in Korthikanti et al., "Reducing activation recomputation" (2022), section 4, for a layer of
Qwen2 or Llama. Tests compare the terms with the memory of real steps on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

#: How many numbers DeepSpeed sends at once, and how many ZeRO-3 keeps gathered at most. These are DeepSpeed's defaults.
REDUCE_BUCKET, LIVE = 500_000_000, 1_000_000_000
#: Bytes of a block, and numbers that are kept of a parameter. Copied from `training.core.gradients.recorder`, which
#: imports torch.
BLOCK_BYTES, SUMS = 16 * 2**20, 65_521
#: Size of a tile of TRL's fused head (`kernels/chunked_logprob.py`): tokens by words of the vocabulary.
TILE = (4096, 8192)
#: How often a word occurs in a micro-batch, at least. This is a guess: 1 for noise, about 10 for mathematics.
WORD_REPEATS = 4


@dataclass(frozen=True)
class Shape:
    """Sizes of a dense model like Qwen2 or Llama. `bias`: queries, keys and values have a bias, as in Qwen2."""

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
        """Width of all heads' keys; the values have the same width."""
        return self.kv_heads * self.head_dim

    @property
    def matrices(self) -> list[tuple[int, int]]:
        """Units and inputs of a layer's seven weight matrices: q, k, v, o, gate, up and down."""
        hidden, inner, query, key = self.hidden, self.intermediate, self.query, self.key
        attention = [(query, hidden), (key, hidden), (key, hidden), (hidden, query)]
        return [*attention, (inner, hidden), (inner, hidden), (hidden, inner)]

    @property
    def embedding(self) -> int:
        """Number of parameters of the embedding."""
        return self.vocabulary * self.hidden

    @property
    def sizes(self) -> list[int]:
        """Size of each parameter tensor of the model."""
        biases = [self.query, self.key, self.key] if self.bias else []
        matrices = [units * inputs for units, inputs in self.matrices]
        layer = [*matrices, *biases, self.hidden, self.hidden]
        return layer * self.layers + [self.hidden] + [self.embedding] * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """Number of parameters of the whole model."""
        return sum(self.sizes)


@dataclass(frozen=True)
class MemorySettings:
    """The settings that decide a training process's memory. The names are the study's where it has the setting."""

    micro_batch: int = 8  # per_device_train_batch_size
    micro_batches: int = 1  # gradient_accumulation_steps; the completions of all of them are generated together
    prompt: int = 256  # tokens of the longest prompt
    completion: int = 1024  # tokens of the longest completion
    lora: int = 0  # rank of the adapters of all linear layers; 0: the whole model is trained
    bf16: bool = True
    checkpointing: bool = True
    reference: bool = False  # whether there is a KL term: beta above 0
    components: int = 3  # number of components that are trained on
    measured: bool = True  # whether the components' gradients are measured
    strategy: str = "ddp"
    processes: int = 1
    vllm: str = ""  # what generates completions: "" (transformers), "colocate" or "server"
    vllm_memory: float = 0.3  # share of the GPU that a colocated vLLM takes
    vllm_sleep: bool = False

    @property
    def zero(self) -> bool:
        """Whether the processes divide optimiser and gradients among them (ZeRO)."""
        return self.strategy.startswith("zero")

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch * (self.prompt + self.completion)

    @property
    def weight_bytes(self) -> int:
        """Bytes of a number in weights, gradients and the stream between layers: float32, or bfloat16 under ZeRO."""
        return 2 if self.zero and self.bf16 else 4

    @property
    def compute_bytes(self) -> int:
        """Bytes of a number in computations under autocast."""
        return 2 if self.bf16 else 4


def trained(shape: Shape, run: MemorySettings) -> int:
    """Number of trained parameters: all, or with LoRA two factors of rank r for each of a layer's matrices."""
    return shape.layers * sum(run.lora * sum(matrix) for matrix in shape.matrices) if run.lora else shape.parameters


def weights(shape: Shape, run: MemorySettings) -> float:
    """Bytes of the weights, with the adapters. Under ZeRO-3 a process holds a slice of them."""
    numbers = shape.parameters + (trained(shape, run) if run.lora else 0)
    return numbers * run.weight_bytes / (run.processes if run.strategy == "zero3" else 1)


def master_weights(shape: Shape, run: MemorySettings) -> float:
    """Bytes of a process's slice of ZeRO's float32 weights, which the optimiser changes; kept also beside float32."""
    return 4 * trained(shape, run) / run.processes if run.zero else 0


def optimiser(shape: Shape, run: MemorySettings) -> float:
    """Bytes of Adam's two moving averages in float32."""
    return 8 * trained(shape, run) / (run.processes if run.zero else 1)


def gradients(shape: Shape, run: MemorySettings) -> float:
    """Bytes of the gradients of trained parameters, in the weights' format. Under ZeRO a process holds a slice."""
    return trained(shape, run) * run.weight_bytes / (run.processes if run.zero else 1)


def communication(shape: Shape, run: MemorySettings) -> float:
    """Bytes of buffers for communication: DDP's buckets are a second copy of all gradients, ZeRO has one bucket."""
    numbers = REDUCE_BUCKET if run.zero else trained(shape, run)
    return numbers * run.weight_bytes if run.processes > 1 else 0


def layer_activations(shape: Shape, run: MemorySettings) -> float:
    """Bytes that a layer keeps of a micro-batch for its backward pass.

    For each token these are, in the format between layers:

    - the inputs of the two norms, and where norms are trained the normalised inputs, too;

    and in the format of computations:

    - the inputs of the linear layers: one copy for each of q, k, v, gate and up under autocast, two copies without;
    - queries, keys and values (repeated to all heads, where rows are padded), and the attention's output;
    - four vectors of the intermediate size, a row of the mask, and float32 sums.

    Under autocast the layer also keeps the cast copies of its matrices.
    """
    width, stream = run.compute_bytes, run.weight_bytes
    hidden, query, inner = shape.hidden, shape.query, shape.intermediate
    cast = width != stream
    of_token = stream * hidden * (2 if run.lora else 4)
    of_token += width * hidden * (5 if cast else 2)
    of_token += width * (4 * query + 4 * inner + run.prompt + run.completion) + 4 * (shape.heads + 2)
    if run.lora:
        of_token += width * (len(shape.matrices) * run.lora + (query if cast else 0))
    of_layer = sum(units * inputs for units, inputs in shape.matrices)
    copies = width * (of_layer + trained(shape, run) / shape.layers * bool(run.lora)) if cast else 0
    return of_token * run.tokens + copies


def activations(shape: Shape, run: MemorySettings) -> float:
    """Bytes that all layers keep. With checkpointing each layer keeps its input, and one layer is computed anew."""
    ends = (run.weight_bytes * shape.hidden * (2 if run.lora else 3) + 60) * run.tokens  # final norm, head, tokens
    layer = layer_activations(shape, run)
    if not run.checkpointing:
        return ends + shape.layers * layer
    return ends + shape.layers * run.weight_bytes * shape.hidden * run.tokens + layer


def head(shape: Shape, run: MemorySettings) -> float:
    """Bytes of the log-probabilities and their gradient, in tiles: TRL 1.16 never holds all logits.

    The gradient of the head's weight is summed in float32.
    """
    tokens, words = TILE
    tile = min(run.micro_batch * run.completion, tokens) * min(shape.vocabulary, words) * run.compute_bytes
    if run.lora:
        return tile + 4 * run.tokens * shape.hidden
    # In `lm_head.py`, for each completion: three float32 tiles with as many words as a block has, and hidden states.
    block = max(1, BLOCK_BYTES // (4 * shape.hidden * run.micro_batch))
    words = min(shape.vocabulary, block + 256)
    by_completion = run.micro_batch * run.completion * (3 * 4 * words + 3 * 4 * shape.hidden)
    return 4 * shape.embedding + max(tile, by_completion)


def second_embedding(shape: Shape, run: MemorySettings) -> float:
    """Bytes of the second gradient of an embedding that is also the head's weight; both gradients are then summed.

    Where components are measured, the gradients of the logits of the batch's own words are held, too.
    """
    if not shape.tied or run.lora:
        return 0
    words = run.micro_batch * run.completion * min(run.tokens, shape.vocabulary) * run.compute_bytes / WORD_REPEATS
    return shape.embedding * run.weight_bytes + (words if run.measured else 0)


def measurement(shape: Shape, run: MemorySettings) -> float:
    """Bytes of the components' gradients: blocks of rows; and sums, if a step has several micro-batches or processes.

    The sums are up to 65,521 numbers of each parameter, for the micro-batch and for the step. They are kept for each
    gradient: of each component alone, of its share, and of the KL term. A KL term needs one more backward pass, and the
    gradients of all layers' outputs are kept until its end.
    """
    if not run.measured:
        return 0
    total: float = 3 * BLOCK_BYTES * run.compute_bytes / 2  # rows, rows with signs, and their sums
    if run.processes * run.micro_batches > 1:
        adapters = [run.lora * side for matrix in shape.matrices for side in matrix] * shape.layers
        sizes = adapters if run.lora else shape.sizes
        total += 2 * 4 * sum(min(size, SUMS) for size in sizes) * (2 * run.components + run.reference)
    if run.reference:
        total += shape.layers * run.tokens * sum(units for units, _ in shape.matrices) * run.compute_bytes
    return total


def generation(shape: Shape, run: MemorySettings) -> float:
    """Bytes that transformers holds besides weights while it generates a step's completions; 0 where vLLM generates.

    These are the keys, in the weights' format, and the values, in the format of computations; the logits of one token
    in float32, with three more arrays of this size in softmax and sampling; and under ZeRO-3 the gathered weights.
    """
    if run.vllm:
        return 0
    completions = run.micro_batch * run.micro_batches
    cache = shape.layers * shape.key * (run.weight_bytes + run.compute_bytes) * (run.prompt + run.completion)
    whole = shape.parameters * run.weight_bytes if run.strategy == "zero3" else 0
    return completions * (cache + 4 * 4 * shape.vocabulary) + whole
