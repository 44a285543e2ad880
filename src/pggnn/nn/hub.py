"""``PGGNN`` as a folder, or as a repository of the Hugging Face Hub; needs huggingface_hub."""

import copy
from typing import Any

from huggingface_hub import PyTorchModelHubMixin

from pggnn.nn.init import fold_scales
from pggnn.nn.model import PGGNN

CARD = """---
{{ card_data }}
---

# PG-GNN{% if data is defined %} trained on {{ data }}{% endif %}


A graph neural network that reads the neighbours of each node in the orders of a permutation group.

```python
from pggnn import PGGNN

model = PGGNN.from_pretrained("FOLDER or REPOSITORY").eval()
scores = model(x, edge_index, batch)
```

{% for heading, text in sections if text %}
## {{ heading }}

{{ text }}

{% endfor %}
"""
SECTIONS = {
    "input": "Input and answers", "protocol": "Training", "figures": "Figures", "limits": "Limits",
    "command": "Trained by",
}  # fmt: skip
UNKNOWN = {"limits": "Nothing is recorded of its data, training and figures."}
"""Of a network that no run has trained."""


class HubPGGNN(  # type: ignore[misc]
    PyTorchModelHubMixin, PGGNN, model_card_template=CARD, library_name="pggnn", license="mit", tags=["graph-ml"]
):
    """:class:`~pggnn.PGGNN` with ``save_pretrained``, ``from_pretrained`` and ``push_to_hub`` of the Hub."""

    @classmethod
    def of(cls, network: PGGNN) -> "HubPGGNN":
        """The same network, on its own."""
        folded = copy.deepcopy(network)
        fold_scales(folded)
        made = cls(**network.arguments)
        made.load_state_dict(folded.state_dict())
        made.card = network.card
        return made

    def generate_model_card(self, *args: Any, **kwargs: Any) -> Any:
        """The card: what is known of the run that trained the network."""
        card = self.card or UNKNOWN
        sections = [(heading, card.get(name, "")) for name, heading in SECTIONS.items()]
        known = {"data": card["data"]} if "data" in card else {}
        return super().generate_model_card(*args, **kwargs, sections=sections, **known)

    @classmethod
    def _load_as_pickle(cls, *args: Any) -> Any:
        raise ValueError("there is no model.safetensors: weights that were pickled are not read")
