"""Writes details as lighteval's tracker does, from its own documents, responses and metrics."""

from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.metrics import apply_metric
from lighteval.metrics.metrics import Metrics
from lighteval.models.dummy.dummy_model import DummyModelConfig
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc

QUESTIONS = [("What is 2 + 3?", "5", "5"), ("How many legs has a cat?", "4", "No idea")]
docs = [
    Doc(
        query=f"Question: {question}\nAnswer:",
        choices=[answer],
        gold_index=0,
        id=str(number),
        task_name="sums|0",
        specific={"source": "made up"},
    )
    for number, (question, answer, _) in enumerate(QUESTIONS)
]
responses = [
    ModelResponse(input=doc.query, text=[reply], input_tokens=[1, 2, 3], output_tokens=[[4, 5]])
    for doc, (_, _, reply) in zip(docs, QUESTIONS, strict=True)
]
metrics = [Metrics.exact_match.value, Metrics.f1_score.value]
tracker = EvaluationTracker(output_dir="out", save_details=True)
tracker.general_config_logger.log_model_info(model_config=DummyModelConfig(model_name="dummy"))
scores = apply_metric(responses=responses, docs=docs, metrics=metrics)
for doc, response, numbers in zip(docs, responses, scores, strict=True):
    tracker.metrics_logger.log("sums|0", numbers)
    tracker.details_logger.log("sums|0", doc, response, numbers)
tracker.details_logger.aggregate()
tracker.save()
