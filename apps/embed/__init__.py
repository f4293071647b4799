"""Photos to vectors, on a CPU or a GPU."""

from apps.embed.app import Embed, EmbedOptions

__all__ = ["Embed", "EmbedOptions"]
