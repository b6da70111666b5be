"""Networks: backbones, heads, frozen features."""
