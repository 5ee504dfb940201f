"""Writes probes.json: features with classes, and what a linear probe and nearest neighbours make of them, by NumPy and SciPy.
The linear probe is scikit-learn's `LogisticRegression` (C = 1) after a `StandardScaler`; the neighbours vote as in DINO's evaluation.
Run it with a Python that has numpy and scipy, in this directory.
"""
import json
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

random = np.random.default_rng(0)


def draw(count, width, classes, centres, spread):
    labels = random.integers(0, classes, count)
    return (centres[labels] + spread * random.normal(size=(count, width))).astype(np.float32), labels


def linear(x, y, classes):
    width = x.shape[1]

    def loss(flat):
        w = flat.reshape(classes, width + 1)
        logits = x @ w[:, :-1].T + w[:, -1]
        total = logsumexp(logits, axis=1)
        errors = np.exp(logits - total[:, None])
        errors[np.arange(len(y)), y] -= 1
        gradient = np.concatenate([errors.T @ x + w[:, :-1], errors.sum(0)[:, None]], axis=1)
        value = (total - logits[np.arange(len(y)), y]).sum() + (w[:, :-1] ** 2).sum() / 2
        return value / len(y), gradient.ravel() / len(y)

    found = minimize(loss, np.zeros(classes * (width + 1)), jac=True, method="L-BFGS-B",
                     options={"ftol": 0, "gtol": 1e-11, "maxiter": 100000, "maxfun": 1000000})
    return found.fun, found.x.reshape(classes, width + 1)


def neighbours(x, y, test, classes, votes):
    unit = lambda rows: rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    similarities = unit(test) @ unit(x).T
    found = []
    for row in similarities:
        nearest = np.argsort(-row, kind="stable")[:votes]
        sums = np.zeros(classes)
        np.add.at(sums, y[nearest], np.exp(row[nearest] / 0.07))
        found.append(int(sums.argmax()))
    return found


cases = []
for width, classes, count, votes, spread in [(3, 2, 30, 1, 1.0), (5, 4, 60, 7, 1.5)]:
    centres = random.normal(size=(classes, width)) * 2
    (x, y), (test, labels) = draw(count, width, classes, centres, spread), draw(25, width, classes, centres, spread)
    x64, test64 = x.astype(np.float64), test.astype(np.float64)
    mean, deviation = x64.mean(0), x64.std(0)
    value, w = linear((x64 - mean) / deviation, y, classes)
    logits = (test64 - mean) / deviation @ w[:, :-1].T + w[:, -1]
    voted = neighbours(x64, y, test64, classes, votes)
    part = lambda rows, classes: {"values": rows.ravel().tolist(), "classes": classes.tolist()}
    cases.append({"width": width, "count": classes, "votes": votes, "train": part(x, y), "test": part(test, labels),
                  "loss": value, "weights": w.ravel().tolist(), "linear": logits.argmax(1).tolist(), "neighbours": voted,
                  "accuracy": float(np.mean(np.array(voted) == labels))})
with open("probes.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
