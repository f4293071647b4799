"""The control plane over HTTP: routers by topic, one application factory."""

from service.api.app import create_app

__all__ = ["create_app"]
