"""Writes self_supervised.json: losses of several views and their gradients of the student's outputs, in PyTorch's f64, each
beside its configuration and inputs (which are f32). Run it with a Python that has torch, in this directory.
"""
import json
import torch
import torch.nn.functional as F

torch.manual_seed(0)
cases = []


def outputs(rows, width, scale=1.0):
    return (torch.randn(rows, width) * scale).double().requires_grad_()


def case(kind, config, student, loss, **others):
    loss.backward()
    entry = {"loss": kind, "config": config, "width": student.shape[1], "student": student.flatten().tolist()}
    entry |= {name: tensor.flatten().tolist() for name, tensor in others.items()}
    cases.append(entry | {"value": loss.item(), "gradient": student.grad.flatten().tolist()})


def nt_xent(z, temperature):
    z = F.normalize(z, dim=1)
    similarities = (z @ z.T / temperature).fill_diagonal_(float("-inf"))
    samples = len(z) // 2
    return F.cross_entropy(similarities, torch.arange(2 * samples).roll(samples))


def info_nce(queries, keys, queue, temperature):
    q, k = F.normalize(queries, dim=1), F.normalize(keys, dim=1)
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def byol(p, z):
    return -F.cosine_similarity(p, z.roll(len(z) // 2, 0)).mean()


def dino(student, teacher, centre, samples, student_temperature, teacher_temperature):
    total, terms = 0, 0
    for t, q in enumerate(((teacher - centre) / teacher_temperature).softmax(1).split(samples)):
        for s, logits in enumerate((student / student_temperature).split(samples)):
            if s != t:
                total, terms = total - (q * logits.log_softmax(1)).sum(1).mean(), terms + 1
    return total / terms


def ibot(student, teacher, centre, patch_centre, mask, samples, positions, student_temperature, teacher_temperature, patch_temperature):
    own, theirs = (outputs.unflatten(0, (-1, positions)) for outputs in (student, teacher))
    of_class = dino(own[:, 0], theirs[:, 0], centre, samples, student_temperature, teacher_temperature)
    own, mask = own[:len(theirs), 1:], mask[:len(theirs)]
    targets = ((theirs[:, 1:] - patch_centre) / patch_temperature).softmax(2)
    each = -(targets * (own / student_temperature).log_softmax(2)).sum(2)
    return of_class + ((each * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()


def sinkhorn(scores, epsilon, iterations):
    q = (scores / epsilon).exp().T
    q /= q.sum()
    for _ in range(iterations):
        q /= q.sum(1, keepdim=True) * q.shape[0]
        q /= q.sum(0, keepdim=True) * q.shape[1]
    return (q * q.shape[1]).T


def swav(scores, queue, samples, assigned, temperature, epsilon, iterations):
    views, total = scores.split(samples), 0
    for of in range(assigned):
        rows = torch.cat([views[of].detach(), queue.chunk(assigned)[of]]) if len(queue) else views[of].detach()
        q = sinkhorn(rows, epsilon, iterations)[:samples]
        others = [v for v in range(len(views)) if v != of]
        total += sum(-(q * (views[v] / temperature).log_softmax(1)).sum(1).mean() for v in others) / len(others)
    return total / assigned


def barlow_twins(z, redundancy):
    first, second = (F.batch_norm(view, None, None, training=True) for view in z.chunk(2))
    c = first.T @ second / len(first)
    diagonal = c.diagonal()
    return (diagonal - 1).pow(2).sum() + redundancy * (c.pow(2).sum() - diagonal.pow(2).sum())


def vicreg(z, invariance, variance, covariance):
    views = z.chunk(2)
    loss = invariance * F.mse_loss(*views)
    for view in views:
        centred = view - view.mean(0)
        loss = loss + variance * F.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean() / 2
        c = centred.T @ centred / (len(view) - 1)
        loss = loss + covariance * (c.pow(2).sum() - c.diagonal().pow(2).sum()) / view.shape[1]
    return loss


for samples, width, temperature in [(2, 3, 0.5), (9, 5, 0.1)]:
    z = outputs(2 * samples, width)
    case("nt-xent", {"temperature": temperature}, z, nt_xent(z, temperature))
for samples, width, queued, temperature in [(3, 4, 2, 0.2), (70, 3, 11, 0.07)]:
    q, k = outputs(samples, width), torch.randn(samples, width).double()
    queue = F.normalize(torch.randn(queued, width), dim=1).double()
    case("info-nce", {"temperature": temperature}, q, info_nce(q, k, queue, temperature), keys=k, queue=queue)
for samples, width in [(1, 2), (6, 5)]:
    p, z = outputs(2 * samples, width), torch.randn(2 * samples, width).double()
    case("byol", {}, p, byol(p, z), projections=z)
for views, teacher_views, samples, width in [(2, 2, 3, 4), (5, 2, 4, 7), (3, 1, 2, 3)]:
    student, teacher = outputs(views * samples, width, 0.3), (torch.randn(teacher_views * samples, width) * 0.3).double()
    centre = (torch.randn(width) * 0.1).double()
    config = {"samples": samples, "student_temperature": 0.1, "teacher_temperature": 0.04}
    case("dino", config, student, dino(student, teacher, centre, **config), teacher=teacher, centre=centre)
for views, assigned, samples, width, queued in [(2, 2, 4, 3, 0), (2, 2, 3, 5, 7), (4, 2, 3, 4, 2)]:
    scores = outputs(views * samples, width, 0.4)
    queue = (torch.randn(assigned * queued, width) * 0.4).double()
    config = {"samples": samples, "assigned": assigned, "temperature": 0.1, "epsilon": 0.05, "iterations": 3}
    case("swav", config, scores, swav(scores, queue, **config), queue=queue)
for samples, width in [(2, 2), (7, 5)]:
    z = outputs(2 * samples, width)
    case("barlow-twins", {"redundancy": 0.005}, z, barlow_twins(z, 0.005))
for samples, width, scale in [(2, 3, 0.5), (8, 5, 1.0)]:
    z = outputs(2 * samples, width, scale)
    config = {"invariance": 25.0, "variance": 25.0, "covariance": 1.0}
    case("vicreg", config, z, vicreg(z, **config))
for views, samples, width, kind in [(2, 3, 4, "hard"), (3, 2, 5, "soft")]:
    scores = outputs(views * samples, width, 0.4)
    soft = (torch.randn(samples, width) * 2).softmax(1).double()
    targets = soft if kind == "soft" else F.one_hot(soft.argmax(1), width).double()
    loss = F.cross_entropy(scores / 0.1, targets.repeat(views, 1))
    case("deep-cluster", {"temperature": 0.1}, scores, loss, targets=targets)
for views, teacher_views, samples, patches, width in [(2, 2, 3, 4, 3), (3, 2, 2, 5, 4)]:
    student = outputs(views * samples * (1 + patches), width, 0.3)
    teacher = (torch.randn(teacher_views * samples * (1 + patches), width) * 0.3).double()
    centre, patch_centre = (torch.randn(2, width) * 0.1).double()
    mask = (torch.rand(views * samples, patches) < 0.4).double()
    mask[0] = 0
    config = {"samples": samples, "positions": 1 + patches, "student_temperature": 0.1, "teacher_temperature": 0.04, "patch_temperature": 0.05}
    loss = ibot(student, teacher, centre, patch_centre, mask, **config)
    case("ibot", config, student, loss, teacher=teacher, centre=centre, patch_centre=patch_centre, mask=mask)
with open("self_supervised.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(entry) for entry in cases) + "\n]\n")
