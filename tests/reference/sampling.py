"""Writes sampling.json: which tokens transformers' logits processors keep, and how likely these are. Run it with a Python
that has torch and transformers, in this directory.
"""
import itertools, json
import torch
from transformers import LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

generator = torch.Generator().manual_seed(7)
cases = []
for penalty, temperature, k, p, least in itertools.product([1.0, 1.3], [0.7, 1.0, 2.5], [0, 1, 5], [1.0, 0.9, 0.35], [0.0, 0.1]):
    scores = torch.randn(1, 24, generator=generator) * 3
    # Two that are equal, and one that is impossible.
    scores[0, 4] = scores[0, 9]
    scores[0, 17] = -torch.inf
    seen = torch.tensor([[2, 4, 2, 11]])
    steps = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(penalty), TemperatureLogitsWarper(temperature)])
    if k:
        steps.append(TopKLogitsWarper(k))
    if p < 1.0:
        steps.append(TopPLogitsWarper(p))
    if least:
        steps.append(MinPLogitsWarper(least))
    probabilities = steps(seen, scores.clone()).double().softmax(-1)[0]
    kept = [i for i, x in enumerate(probabilities.tolist()) if x > 0]
    cases.append({
        "scores": [x if x > -1e30 else None for x in scores[0].tolist()],
        "seen": seen[0].tolist(),
        "options": {"repetition_penalty": penalty, "temperature": temperature, "top_k": k, "top_p": p, "min_p": least},
        "kept": kept,
        "probabilities": [probabilities[i].item() for i in kept],
    })
with open("sampling.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
