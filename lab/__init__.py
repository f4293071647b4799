"""The laboratory: how we know what the product does. It uses the product; the product never imports it."""
