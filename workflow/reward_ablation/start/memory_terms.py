"""Each term of a training process's GPU memory, in bytes, from the model's shape and the run's layout.

TRL 1.16 loads weights in float32 and computes under bfloat16 autocast. Under ZeRO, DeepSpeed turns the weights into
bfloat16 and keeps float32 weights beside them. Weights, gradients and optimiser are counted as in Rajbhandari et al.,
"ZeRO" (2020), section 3; activations as in Korthikanti et al., "Reducing activation recomputation" (2022), section 4,
for a layer of Qwen2 or Llama. Tests compare the terms with what real steps on a CPU hold.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Numbers that DeepSpeed sends at once, and that ZeRO-3 keeps gathered at most: DeepSpeed's defaults.
REDUCE_BUCKET, LIVE = 500_000_000, 1_000_000_000
#: Of `training.core.gradients.recorder`, which imports torch: bytes of a block, numbers of a parameter that are kept.
BLOCK_BYTES, SUMS = 16 * 2**20, 65_521
#: Tiles of TRL's fused head (`kernels/chunked_logprob.py`): tokens by words.
TILE = (4096, 8192)
#: How often a token of text comes in a micro-batch, at least. This is a guess: 1 for noise, some 10 for mathematics.
WORD_REPEATS = 4


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
    def matrices(self) -> list[tuple[int, int]]:
        """The seven weights of a layer, of q, k, v, o, gate, up and down: units and inputs."""
        hidden, inner, query, key = self.hidden, self.intermediate, self.query, self.key
        attention = [(query, hidden), (key, hidden), (key, hidden), (hidden, query)]
        return [*attention, (inner, hidden), (inner, hidden), (hidden, inner)]

    @property
    def embedding(self) -> int:
        """Numbers of the embedding."""
        return self.vocabulary * self.hidden

    @property
    def sizes(self) -> list[int]:
        """Numbers of each parameter of the model."""
        biases = [self.query, self.key, self.key] if self.bias else []
        matrices = [units * inputs for units, inputs in self.matrices]
        layer = [*matrices, *biases, self.hidden, self.hidden]
        return layer * self.layers + [self.hidden] + [self.embedding] * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """Numbers of the whole model."""
        return sum(self.sizes)


@dataclass(frozen=True)
class Run:
    """What decides a training process's memory, by the names of the study where there is one."""

    micro_batch: int = 8  # per_device_train_batch_size
    micro_batches: int = 1  # gradient_accumulation_steps: their completions are generated together
    prompt: int = 256  # tokens of the longest
    completion: int = 1024
    lora: int = 0  # rank of adapters of all linear layers; 0: the whole model is trained
    bf16: bool = True
    checkpointing: bool = True
    reference: bool = False  # whether there is a KL term: beta above 0
    components: int = 3  # that are trained on
    measured: bool = True  # whether the components' gradients are measured
    strategy: str = "ddp"
    processes: int = 1
    vllm: str = ""  # where completions come from: "" (transformers), "colocate" or "server"
    vllm_memory: float = 0.3  # share of the GPU that colocated vLLM takes
    vllm_sleep: bool = False

    @property
    def zero(self) -> bool:
        """Whether the processes share optimiser and gradients."""
        return self.strategy.startswith("zero")

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch * (self.prompt + self.completion)

    @property
    def weight_bytes(self) -> int:
        """Bytes of a number of the weights, its gradient, or the stream between layers: float32; ZeRO's bfloat16."""
        return 2 if self.zero and self.bf16 else 4

    @property
    def compute_bytes(self) -> int:
        """Bytes of a number that autocast computes with."""
        return 2 if self.bf16 else 4


def trained(shape: Shape, run: Run) -> int:
    """Numbers that are trained: all, or two factors of rank r for each of a layer's matrices."""
    return shape.layers * sum(run.lora * sum(matrix) for matrix in shape.matrices) if run.lora else shape.parameters


def weights(shape: Shape, run: Run) -> float:
    """Weights, adapters included; ZeRO-3 has a slice of them."""
    numbers = shape.parameters + (trained(shape, run) if run.lora else 0)
    return numbers * run.weight_bytes / (run.processes if run.strategy == "zero3" else 1)


def master_weights(shape: Shape, run: Run) -> float:
    """ZeRO's float32 weights, which the optimiser changes, in slices; also where the others are float32."""
    return 4 * trained(shape, run) / run.processes if run.zero else 0


def optimiser(shape: Shape, run: Run) -> float:
    """Adam's two averages in float32."""
    return 8 * trained(shape, run) / (run.processes if run.zero else 1)


def gradients(shape: Shape, run: Run) -> float:
    """Gradients of what is trained, in the weights' format; ZeRO has a slice."""
    return trained(shape, run) * run.weight_bytes / (run.processes if run.zero else 1)


def communication(shape: Shape, run: Run) -> float:
    """DDP's buckets, a second copy of all gradients; ZeRO's one bucket."""
    numbers = REDUCE_BUCKET if run.zero else trained(shape, run)
    return numbers * run.weight_bytes if run.processes > 1 else 0


def layer_activations(shape: Shape, run: Run) -> float:
    """What a layer keeps of a micro-batch for its backward pass.

    By token: the inputs of the two norms, and these normalised where norms are trained, in the format between layers;
    inputs of the linear layers, cast once for each of q, k, v, gate and up under autocast, not at all without; queries,
    keys and values (repeated to all heads, where rows are padded) and the attention's output; four of the intermediate
    size; a row of the mask; float32 sums. And the matrices, as autocast has cast them.
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


def activations(shape: Shape, run: Run) -> float:
    """What all layers keep; with checkpointing each keeps its input, and one has been computed anew."""
    ends = (run.weight_bytes * shape.hidden * (2 if run.lora else 3) + 60) * run.tokens  # final norm, head, tokens
    layer = layer_activations(shape, run)
    if not run.checkpointing:
        return ends + shape.layers * layer
    return ends + shape.layers * run.weight_bytes * shape.hidden * run.tokens + layer


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
    """Gradients of an embedding that is the head's weight too come twice, and are then added up.

    Where components are measured, also the gradients of the logits of the batch's own words.
    """
    if not shape.tied or run.lora:
        return 0
    words = run.micro_batch * run.completion * min(run.tokens, shape.vocabulary) * run.compute_bytes / WORD_REPEATS
    return shape.embedding * run.weight_bytes + (words if run.measured else 0)


def measurement(shape: Shape, run: Run) -> float:
    """The components' gradients: blocks of rows, and where a step has several micro-batches or processes, sums.

    Of each gradient (alone, as a share, and of the KL term) up to 65,521 numbers of each parameter, of the micro-batch
    and of the step. A KL term takes a backward pass more; until its end the gradients of all layers' outputs are kept.
    """
    if not run.measured:
        return 0
    total: float = 3 * BLOCK_BYTES * run.compute_bytes / 2  # rows, these with signs, and their sums
    if run.processes * run.micro_batches > 1:
        adapters = [run.lora * side for matrix in shape.matrices for side in matrix] * shape.layers
        sizes = adapters if run.lora else shape.sizes
        total += 2 * 4 * sum(min(size, SUMS) for size in sizes) * (2 * run.components + run.reference)
    if run.reference:
        total += shape.layers * run.tokens * sum(units for units, _ in shape.matrices) * run.compute_bytes
    return total


def generation(shape: Shape, run: Run) -> float:
    """What transformers' generation of all completions of a step holds beside weights: 0 where vLLM generates.

    That is keys, in float32 where weights are, and values; logits of one token in float32, with what softmax and
    sampling make of them; under ZeRO-3 the whole weights.
    """
    if run.vllm:
        return 0
    completions = run.micro_batch * run.micro_batches
    cache = shape.layers * shape.key * (run.weight_bytes + run.compute_bytes) * (run.prompt + run.completion)
    whole = shape.parameters * run.weight_bytes if run.strategy == "zero3" else 0
    return completions * (cache + 4 * 4 * shape.vocabulary) + whole
