"""What the end-to-end tests, the demo and the benches share: servers, fixtures, headrace itself. Standard library only."""
