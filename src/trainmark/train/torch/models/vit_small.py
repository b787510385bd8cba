"""ViT-Small (Dosovitskiy et al. 2021; this size: Touvron et al. 2021): a transformer over patches of 16 × 16 pixels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PATCH = 16
WIDTH = 384
HEADS = 6
DEPTH = 12
GRID = 14  # patches per side for 224 × 224 images, the resolution of the position embedding
EPSILON = 1e-6


class Embedding(nn.Module):
    """Images to tokens: a class token, then one per patch, plus learned position embeddings."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, WIDTH, PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.class_position = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, WIDTH, GRID, GRID))

    def forward(self, x: Tensor) -> Tensor:
        """Tokens of a batch of images: (samples, 1 + patches, width)."""
        grid = self.patches(x)
        positions: Tensor = self.positions
        if grid.shape[2:] != positions.shape[2:]:
            positions = F.interpolate(positions, size=grid.shape[2:], mode="bicubic")
        tokens = (grid + positions).flatten(2).transpose(1, 2)
        first = (self.class_token + self.class_position).expand(tokens.shape[0], -1, -1)
        return torch.cat((first, tokens), dim=1)


class Attention(nn.Module):
    """Multi-head self-attention: six heads of 64 features."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = HEADS
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.joined = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """The attention output of each token."""
        samples, tokens, width = x.shape
        parts = self.queries_keys_values(x).reshape(samples, tokens, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(queries, keys, values)
        out: Tensor = self.joined(attended.transpose(1, 2).reshape(samples, tokens, width))
        return out


class Block(nn.Module):
    """A pre-norm transformer block: attention, then a two-layer MLP, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(WIDTH, eps=EPSILON), Attention())
        self.features = nn.Sequential(
            nn.LayerNorm(WIDTH, eps=EPSILON), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The block's output tokens."""
        x = x + self.attention(x)
        out: Tensor = x + self.features(x)
        return out


class ClassToken(nn.Module):
    """Selects the class token."""

    def forward(self, x: Tensor) -> Tensor:
        """(samples, width)."""
        return x[:, 0]


def vit_small(num_classes: int = 1000, channels: int = 3) -> nn.Module:
    """ViT-Small: 12 pre-norm blocks of width 384 over 16 × 16 patches; 22.05 million parameters for 1000 classes."""
    model = nn.Sequential(
        Embedding(channels),
        *(Block() for _ in range(DEPTH)),
        nn.LayerNorm(WIDTH, eps=EPSILON),
        ClassToken(),
        nn.Linear(WIDTH, num_classes),
    )
    _initialise(model)
    return model


def _initialise(model: nn.Module) -> None:
    """Truncated normal weights (σ = 0.02) and zero biases, as in Touvron et al. 2021."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            assert module.bias is not None
            nn.init.zeros_(module.bias)
        elif isinstance(module, Embedding):
            for parameter in (module.class_token, module.class_position, module.positions):
                nn.init.trunc_normal_(parameter, std=0.02)
