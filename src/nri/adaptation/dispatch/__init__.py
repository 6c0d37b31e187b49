"""One event on its way through all plugins: from the runtime's call to one merged, validated answer."""
