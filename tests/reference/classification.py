"""Scores of classifications, for `classification`.

    python classification.py > classification.json        # scikit-learn 1.9, NumPy 2

Cases: targets, predictions, scores for top-k, the number of classes, and what scikit-learn makes of them.
Specificity, which it has not, is the recall of "not this class" for each class, by recall_score.
"""

import json
import warnings

import numpy as np
from sklearn import metrics as m

warnings.filterwarnings("ignore")
BY_CLASS = {
    "precision": m.precision_score,
    "recall": m.recall_score,
    "f1": m.f1_score,
    "jaccard": m.jaccard_score,
}


def specificity(targets, predictions, classes, otherwise):
    return [float(m.recall_score(targets != c, predictions != c, zero_division=otherwise)) for c in classes]


def case(targets, scores, otherwise):
    count = scores.shape[1]
    predictions = scores.argmax(axis=1)
    classes = list(range(count))
    expected = {
        "accuracy": m.accuracy_score(targets, predictions),
        "balanced_accuracy": m.balanced_accuracy_score(targets, predictions),
        "mcc": m.matthews_corrcoef(targets, predictions),
        "kappa": m.cohen_kappa_score(targets, predictions),
    }
    for name, function in BY_CLASS.items():
        for average in ["macro", "micro", "weighted"]:
            expected[f"{name}/{average}"] = function(
                targets, predictions, average=average, zero_division=otherwise)
        expected[f"{name}/none"] = function(
            targets, predictions, labels=classes, average=None, zero_division=otherwise).tolist()
    each = specificity(targets, predictions, classes, otherwise)
    support = np.bincount(targets, minlength=count)
    occurring = sorted(set(targets) | set(predictions))
    expected["specificity/none"] = each
    expected["specificity/macro"] = float(np.mean([each[c] for c in occurring]))
    expected["specificity/weighted"] = float(np.average(each, weights=support))
    matrices = m.multilabel_confusion_matrix(targets, predictions, labels=occurring)
    expected["specificity/micro"] = float(matrices[:, 0, 0].sum() / matrices[:, 0].sum())
    for k in [1, 2, 3]:
        expected[f"top{k}"] = m.top_k_accuracy_score(targets, scores, k=k, labels=classes)
    confusion = {"none": None, "true": "true", "predicted": "pred", "all": "all"}
    for name, normalise in confusion.items():
        expected[f"confusion/{name}"] = m.confusion_matrix(
            targets, predictions, labels=classes, normalize=normalise).ravel().tolist()
    return {
        "classes": count,
        "otherwise": otherwise,
        "targets": targets.tolist(),
        "scores": scores.round(6).tolist(),
        "expected": {name: value if isinstance(value, list) else float(value)
                     for name, value in expected.items()},
    }


def main():
    random = np.random.default_rng(7)
    balanced = random.integers(0, 4, 60)
    scores = random.normal(size=(60, 4)) + 1.2 * np.eye(4)[balanced]
    uneven = random.choice([0, 1, 2], 40, p=[0.8, 0.15, 0.05])
    # Class 4 occurs nowhere; class 3 is predicted and is no target.
    rare = random.normal(size=(40, 5)) + 1.5 * np.eye(5)[uneven]
    rare[:, 4] -= 20
    cases = [case(balanced, scores.round(6), 0.0), case(uneven, rare.round(6), 0.0),
             case(uneven, rare.round(6), 1.0)]
    print("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]")


main()
