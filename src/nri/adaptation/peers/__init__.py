"""One plugin as the runtime sees it: who it is, where it stands, how an event is put to it."""
