"""A model with adapters of PEFT's: its files, outputs and 20 steps, for host/trainer/src/adapters/tests.rs.

python -P peft_lora.py, with PyTorch 2.15 and PEFT 0.21.2 on the CPU: writes peft_lora/, and peft_dora/ with magnitudes.
"""

import json
import shutil
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.fc2 = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def write(place, use_dora):
    torch.manual_seed(5)
    shutil.rmtree(place, ignore_errors=True)
    net = Net()
    place.mkdir()
    save_file(net.state_dict(), place / "model.safetensors")
    config = LoraConfig(
        r=2, lora_alpha=6, target_modules=["fc1", "fc2"], modules_to_save=["head"], init_lora_weights=False, use_dora=use_dora
    )
    model = get_peft_model(net, config)
    model.save_pretrained(place / "adapter")
    (place / "adapter" / "README.md").unlink()
    model.double()
    inputs = torch.randn(10, 6, dtype=torch.float64)
    targets = torch.arange(10) % 3
    reference = {"inputs": inputs.tolist(), "targets": targets.tolist(), "outputs": model(inputs).tolist()}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    reference["losses"] = losses
    reference["trained"] = {
        name.removeprefix("base_model.model.")
        .replace(".default", "")
        .replace(".modules_to_save", "")
        .replace("lora_magnitude_vector.weight", "lora_magnitude_vector"): parameter.flatten().tolist()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    reference["trained_outputs"] = model(inputs).tolist()
    merged = model.merge_and_unload()
    reference["merged"] = {name: tensor.flatten().tolist() for name, tensor in merged.state_dict().items()}
    (place / "reference.json").write_text(json.dumps(reference) + "\n")


PLACE = Path(__file__).parent
write(PLACE / "peft_lora", False)
write(PLACE / "peft_dora", True)
