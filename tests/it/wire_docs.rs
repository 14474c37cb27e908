//! What `docs/wire.md` shows is what the fixtures hold.
