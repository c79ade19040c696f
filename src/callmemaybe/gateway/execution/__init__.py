"""Running a tool: one attempt, in the event loop, a thread, or a worker process."""
