"""Server: speech over HTTP and WebSocket. An event loop in front of the engines' threads."""
