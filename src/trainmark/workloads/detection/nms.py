"""Non-maximum suppression: of boxes that overlap, the one with the highest score stays."""

import torch
from torch import Tensor

from trainmark.workloads.detection.boxes import overlap

# Boxes that are settled together: few, so that most pairs are with boxes that have stayed; on a GPU more, since every
# block waits for its kernels. For 2000 boxes a group 128 was fastest of 32 to 256 on a CPU core, 512 (with 256) of
# 128 to 2048 on an H200: 8.4 ms for 80 groups, where torchvision's operator, group by group, took 30 ms.
BLOCK_ON_CPU, BLOCK = 128, 512
PAIRS_AT_ONCE = 2**27  # bounds memory: 512 MiB for the overlaps of so many pairs


def surviving(boxes: Tensor, is_valid: Tensor, most_overlap: float) -> Tensor:
    """Which valid boxes of each group overlap none before them that stays by more; [G, N, 4], best first → [G, N]."""
    groups_at_once = max(1, PAIRS_AT_ONCE // (_block_on(boxes.device) * max(1, boxes.shape[1])))
    parts = zip(torch.split(boxes, groups_at_once), torch.split(is_valid, groups_at_once), strict=True)
    return torch.cat([_surviving_of_groups(*part, most_overlap) for part in parts])


def _surviving_of_groups(boxes: Tensor, is_valid: Tensor, most_overlap: float) -> Tensor:
    stayed = boxes.new_zeros(boxes.shape[0], 1, 4)  # a box without area overlaps nothing
    stays = [is_valid[:, :0]]
    size = _block_on(boxes.device)
    for block, is_candidate in zip(torch.split(boxes, size, 1), torch.split(is_valid, size, 1), strict=True):
        is_candidate = is_candidate & (overlap(stayed, block).amax(dim=1) <= most_overlap)
        stays.append(_settle(overlap(block, block) > most_overlap, is_candidate))
        stayed = torch.cat([stayed, _packed(block, stays[-1])], dim=1)
    return torch.cat(stays, dim=1)


def _block_on(device: torch.device) -> int:
    return BLOCK_ON_CPU if device.type == "cpu" else BLOCK


def _settle(overlaps: Tensor, is_candidate: Tensor) -> Tensor:
    """Which candidates stay. Each round is right for one more link of every chain of overlaps, so the end is exact."""
    before = overlaps.triu(diagonal=1)
    stays = is_candidate
    while True:
        settled = is_candidate & ~(before & stays[..., None]).any(dim=-2)
        if torch.equal(settled, stays):
            return stays
        stays = settled


def _packed(boxes: Tensor, stays: Tensor) -> Tensor:
    """The boxes that stay, in as many columns as the fullest group needs; zeros fill the others."""
    columns = int(stays.sum(dim=1).max())
    places = stays.int().topk(columns, dim=1).indices
    kept = boxes.masked_fill(~stays[..., None], 0.0)
    return kept.gather(1, places[..., None].expand(-1, -1, 4))
